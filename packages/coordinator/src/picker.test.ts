import { expect, test } from "@jest/globals";
import type { Connection } from "#core/database/connection.js";
import type { Statement, Statements } from "#core/database/statements.js";
import { TransientError } from "#core/errors.js";
import { Ledger } from "#core/ledger.js";
import { type HeldRow, HeldTable } from "./held.js";
import { PostgresLimiter } from "./limiter/postgresLimiter.js";
import { Picker, type PickerOptions } from "./picker.js";
import { Report } from "./report.js";
import { StepRules } from "./stepRules.js";

const statements = { get: (path: string): Statement => ({ name: path, text: "" }) } as unknown as Statements;

/** A queue in memory: a table of `backlog` rows, a crew of `concurrency` slots, and a picker between them. */
function rig(more: Partial<PickerOptions> = {}, quarantine = { isReserved: false }) {
  const concurrency = more.concurrency ?? 10;
  const ledger = Ledger.create({ threads: 1, queues: 1, flushers: 1 });
  const held = new HeldTable(ledger);
  const state = {
    backlog: 0,
    isDown: false,
    losesNext: false,
    poisonId: 0,
    suspects: false,
    crashed: false,
    isQuarantineFree: true,
    lockedMarks: 0,
    /** What a mark waits for before it is answered. */
    marksAfter: undefined as Promise<void> | undefined,
    marking: 0,
    picks: 0,
    empty: 0,
    marked: [] as number[],
    doubts: [] as string[],
    waiting: [] as HeldRow[],
    running: [] as HeldRow[],
    claims: 0,
  };
  let nextId = 1;
  const answer = async (statement: Statement, values: readonly unknown[]): Promise<unknown[]> => {
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (state.losesNext) {
      state.losesNext = false;
      state.isDown = true;
      throw new TransientError("CONNECTION_LOST", "gone");
    }
    if (statement.name === "picker/mark_started") {
      state.marking++;
      await state.marksAfter;
      const ids = (values[0] as number[]).slice(state.lockedMarks);
      state.lockedMarks = 0;
      state.marked.push(...ids);
      return ids.map((id) => ({ id, claim: (values[1] as string[])[(values[0] as number[]).indexOf(id)] }));
    }
    if (statement.name === "picker/find_head") return state.poisonId === 0 ? [] : [{ id: state.poisonId }];
    state.picks++;
    const left = values[11] as number[];
    if (state.poisonId !== 0 && !left.includes(state.poisonId)) {
      throw Object.assign(new Error("invalid value"), { code: "22P02" });
    }
    const count = Math.min(state.backlog, values[1] as number);
    state.backlog -= count;
    if (count === 0) state.empty++;
    const ids = Array.from({ length: count }, () => nextId++);
    const facts = {
      ...{
        seen: count,
        limited: 0,
        order: count === 0 ? null : ids.join(","),
        inboxes: null,
        children: null,
      },
      reached:
        count === 0
          ? null
          : [{ priority: 0, eligibleAt: "2026-01-01 00:00:00+00", id: ids.at(-1) as number }],
    };
    const more = JSON.stringify([0, state.crashed ? 1 : 0, state.suspects ? 1 : 0, [], [], null, null]);
    return [
      { id: null, more: JSON.stringify(facts) },
      ...ids.map((id) => ({
        ...{ id, fsm: "plain", version: 1, step: "start", state: "{}", visit: 1, priority: 0 },
        ...{ parent_id: null, parent_visit: null, more: state.crashed || state.suspects ? more : null },
      })),
    ];
  };
  const connection = { run: answer } as unknown as Connection;
  const begin = (): void => {
    while (state.running.length < concurrency) {
      const row = state.waiting.shift();
      if (row === undefined) return;
      state.running.push(row);
    }
  };
  const errors: unknown[] = [];
  const picker = new Picker({
    queue: "default",
    queueIndex: 0,
    flusher: 0,
    concurrency,
    leaseTtlMs: 60_000,
    pollIntervalMs: 60_000,
    maxPollIntervalMs: 60_000,
    prefetch: "auto",
    minDemand: 1,
    known: { names: ["plain"], versions: [1] },
    rules: new StepRules([]),
    database: {
      get isUp() {
        return !state.isDown;
      },
      statements,
      run: (_lane, work) => work(connection),
    },
    limiter: new PostgresLimiter(statements),
    throttle: { tell: () => undefined },
    keepsSettings: true,
    ledger,
    held,
    slots: {
      dispatch: (rows) => {
        state.waiting.push(...rows);
        begin();
      },
      isQuarantineFree: () => state.isQuarantineFree && !quarantine.isReserved,
      reserveQuarantine: (isReserved) => {
        quarantine.isReserved = isReserved;
      },
      freeSlots: () => concurrency - state.running.length,
      unstarted: () => state.waiting.length,
      running: () => state.running.length,
    },
    report: new Report({
      log: () => undefined,
      event: () => undefined,
      fatal: (error) => errors.push(error),
    }),
    canCommit: () => true,
    nameClaim: () => `me/${++state.claims}`,
    doubt: (claim) => state.doubts.push(claim),
    ...more,
  });
  /** One running step ends and is committed. */
  const endOne = (): boolean => {
    const row = state.running.shift();
    if (row === undefined) return false;
    begin();
    picker.ended(1);
    held.release(row.row.seat, row.row.generation);
    picker.released(1);
    return true;
  };
  return { picker, state, held, endOne, errors };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

async function until(condition: () => boolean): Promise<void> {
  const endsAtMs = performance.now() + 5_000;
  while (!condition()) {
    if (performance.now() > endsAtMs) throw new Error("not in time");
    await turn();
  }
}

/** Time in which a pick would have been made if anything asked for one, and the looks after work was found are over. */
async function settle(): Promise<void> {
  const endsAtMs = performance.now() + 150;
  await until(() => performance.now() > endsAtMs);
}

test("trap 2, trap 3: picks are far fewer than completions, and the end of a backlog is not followed by empty ones", async () => {
  const { picker, state, endOne } = rig();
  state.backlog = 5_000;
  picker.start();
  let ended = 0;
  await until(() => {
    for (let n = 0; n < 5 && endOne(); n++) ended++;
    return ended === 5_000;
  });
  await settle();
  expect(state.picks).toBeLessThan(1_000);
  expect(state.empty).toBeLessThanOrEqual(2);
  await picker.stop();
});

test("trap 5: a poke picks while other steps of the queue run, if a slot is free", async () => {
  const { picker, state } = rig();
  state.backlog = 1;
  picker.start();
  await until(() => state.running.length === 1);
  await settle();
  const before = state.picks;
  state.backlog = 1;
  picker.poke();
  await until(() => state.running.length === 2);
  expect(state.picks).toBe(before + 1);
  await picker.stop();
});

test("P3: a poke while no slot is free is remembered; the next free slot picks, a later one does not", async () => {
  const { picker, state, endOne } = rig({ concurrency: 2, prefetch: 0 });
  state.backlog = 2;
  picker.start();
  await until(() => state.running.length === 2);
  await settle();
  const before = state.picks;
  state.backlog = 1;
  picker.poke();
  await settle();
  expect(state.picks).toBe(before);
  endOne();
  await until(() => state.backlog === 0);
  await settle();
  const after = state.picks;
  endOne();
  endOne();
  await settle();
  // The pick that took the last row was full: one more looks past it, one before it, and no more follow.
  expect(state.picks).toBeLessThanOrEqual(after + 2);
  await picker.stop();
});

test("trap 6: the first poke of a storm picks at once; a thousand cost a few picks", async () => {
  const { picker, state } = rig();
  picker.start();
  await until(() => state.picks === 1);
  await settle();
  const before = state.picks;
  picker.poke();
  await until(() => state.picks === before + 1);
  for (let n = 0; n < 1_000; n++) picker.poke();
  await settle();
  expect(state.picks).toBeLessThanOrEqual(before + 5);
  await picker.stop();
});

test("AL1, AL2: in a stream of pokes, rows that come right after others are found without one; a lone poke is one pick", async () => {
  const { picker, state } = rig();
  state.backlog = 1;
  picker.start();
  await until(() => state.running.length === 1);
  await settle();
  expect(state.picks).toBe(1);
  for (let n = 0; n < 3; n++) picker.told();
  state.backlog = 1;
  picker.poke();
  await until(() => state.running.length === 2);
  state.backlog = 1;
  await until(() => state.running.length === 3);
  await settle();
  const before = state.picks;
  await settle();
  expect(state.picks).toBe(before);
  await picker.stop();
});

test("PICK-07: with one slot and prefetch 5 all four rows are claimed at once, and one runs", async () => {
  const { picker, state, held } = rig({ concurrency: 1, prefetch: 5 });
  state.backlog = 4;
  picker.start();
  await until(() => held.count === 4);
  expect(state.running).toHaveLength(1);
  expect(state.picks).toBe(1);
  await picker.stop();
});

test("P4: a claim whose answer was lost is in doubt, and nothing of it is held; when the database is back, it picks on", async () => {
  const { picker, state, held, errors } = rig();
  state.backlog = 3;
  state.losesNext = true;
  picker.start();
  await until(() => state.doubts.length > 0);
  await settle();
  expect(state.doubts).toEqual(["me/1"]);
  expect(held.count).toBe(0);
  expect(errors).toEqual([]);
  state.isDown = false;
  picker.poke();
  await until(() => held.count === 3);
  await picker.stop();
});

test("P5: a claim that one row's values make impossible is halved until the row stands alone, and left out", async () => {
  const { picker, state, held, errors } = rig({ concurrency: 8, prefetch: 0 });
  state.backlog = 4;
  state.poisonId = 77;
  picker.start();
  await until(() => held.count === 4);
  // 8, 4, 2, 1, and then without it.
  expect(state.picks).toBeLessThanOrEqual(7);
  expect(errors).toEqual([]);
  await picker.stop();
});

test("an error that is not the database's ends the node", async () => {
  const { picker, errors } = rig({
    database: {
      isUp: true,
      statements,
      run: () => Promise.reject(new TypeError("a bug")),
    },
  });
  picker.start();
  await until(() => errors.length > 0);
  expect(errors[0]).toBeInstanceOf(TypeError);
  await picker.stop();
});

test("MK1, MK2: suspects are marked only when a slot is free for them; a locked one is tried again", async () => {
  const { picker, state, held, endOne } = rig({ concurrency: 2, prefetch: 3 });
  state.backlog = 5;
  state.suspects = true;
  state.lockedMarks = 1;
  picker.start();
  await until(() => held.count === 5);
  await until(() => state.running.length === 1);
  expect(state.marked).toHaveLength(1);
  await until(() => state.running.length === 2);
  expect(state.marked).toHaveLength(2);
  await settle();
  expect(state.marked).toHaveLength(2);
  endOne();
  await until(() => state.marked.length === 3);
  expect(new Set(state.marked).size).toBe(3);
  await picker.stop();
  expect(picker.recall()).toHaveLength(2);
});

test("MK2: a row whose claim is lost leaves the line, and those behind it do not wait for one that cannot be marked", async () => {
  const { picker, state, held } = rig({ concurrency: 5 });
  Object.assign(state, { backlog: 3, suspects: true, crashed: true, lockedMarks: 1 });
  picker.start();
  await until(() => state.running.length === 1);
  // The first could not be marked; the second has had its turn.
  expect(state.running.map(({ row }) => row.id)).toEqual([2]);
  state.isQuarantineFree = false;
  const [first] = held.all().filter(({ row }) => row.id === 1);
  if (first === undefined) throw new Error("the first row is not held");
  expect([picker.letGo(first), picker.letGo(first)]).toEqual([true, false]);
  await picker.stop();
  expect(picker.recall().map(({ row }) => row.id)).toEqual([3]);
});

test("MK3: of rows that run in quarantine one is marked at a time, and none while it is occupied", async () => {
  const { picker, state, held, endOne } = rig({ concurrency: 5 });
  state.backlog = 3;
  state.suspects = true;
  state.crashed = true;
  state.isQuarantineFree = false;
  picker.start();
  await until(() => held.count === 3);
  await settle();
  expect(state.marked).toEqual([]);
  state.isQuarantineFree = true;
  picker.look();
  await until(() => state.running.length === 1);
  state.isQuarantineFree = false;
  await settle();
  expect(state.marked).toHaveLength(1);
  state.isQuarantineFree = true;
  endOne();
  await until(() => state.marked.length === 2);
  await picker.stop();
});

test("MK3: while one queue marks a row for the quarantine, no other queue does", async () => {
  const quarantine = { isReserved: false };
  const [one, other] = [rig({}, quarantine), rig({}, quarantine)];
  let answer: () => void = () => undefined;
  one.state.marksAfter = new Promise((resolve) => {
    answer = resolve;
  });
  for (const { state } of [one, other]) Object.assign(state, { backlog: 1, suspects: true, crashed: true });
  try {
    one.picker.start();
    await until(() => one.state.marking === 1);
    other.picker.start();
    await until(() => other.held.count === 1);
    await settle();
    expect(other.state.marking).toBe(0);
    answer();
    await until(() => other.state.marked.length === 1);
    expect(one.state.running).toHaveLength(1);
  } finally {
    answer();
    await Promise.all([one.picker.stop(), other.picker.stop()]);
  }
});

test("stopped, it picks no more, whatever comes", async () => {
  const { picker, state } = rig();
  picker.start();
  await until(() => state.picks === 1);
  await picker.stop();
  state.backlog = 5;
  picker.poke();
  picker.ended(1);
  await settle();
  expect(state.picks).toBe(1);
  expect(state.backlog).toBe(5);
});
