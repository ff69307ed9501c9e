import { afterEach, beforeEach, describe, expect, jest, test } from "@jest/globals";
import type { FromFlusher, LostRow, ToRunner } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { emptyResult, type FlushResult } from "./env.js";
import { Flusher, type FlusherOptions } from "./flusher.js";
import type { GiveBackResult } from "./giveBack.js";
import type { Session } from "./sessions.js";
import { BATCH_BYTES_MAX } from "./trigger.js";

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

/** A flusher over a database that commits when the test says so. */
class Bench {
  readonly flushes: {
    ids: number[];
    inline: boolean[];
    end: (answer?: Partial<FlushResult>) => Promise<void>;
  }[] = [];
  readonly returned: LostRow[][] = [];
  readonly messages: FromFlusher[] = [];
  onTheWay = 0;
  pendingBytes = 0;
  readonly chained: number[] = [];
  giveBackAnswer: ((rows: LostRow[]) => Partial<GiveBackResult>) | undefined;
  readonly flusher: Flusher;

  constructor(options: Partial<FlusherOptions> = {}) {
    this.flusher = new Flusher({
      flusher: 0,
      maxBatch: 3,
      maxDelayMs: 100,
      trustMs: 57_000,
      ledger: {
        onTheWay: () => this.onTheWay,
        outcomesArrive: (_thread, _flusher, count) => {
          this.onTheWay -= count;
        },
        areStepsObserved: false,
        chain: (seat) => {
          this.chained.push(seat);
        },
        isChained: (seat) => this.chained.includes(seat),
        trustUntil: () => undefined,
        trustedUntilMs: () => 0,
        addPendingBytes: (_flusher, bytes) => {
          this.pendingBytes += bytes;
        },
      },
      committer: {
        flush: (outcomes) => this.#flush(outcomes),
        giveBack: async (rows) => {
          this.returned.push([...rows]);
          const answer = this.giveBackAnswer?.([...rows]) ?? { returned: [...rows] };
          return { returned: [], deferred: [], pokes: [], events: [], ...answer };
        },
        poke: async () => undefined,
        close: async () => undefined,
      },
      report: (message) => this.messages.push(message),
      fatal: (error) => {
        throw error;
      },
      nowMs: () => Date.now(),
      ...options,
    });
  }

  receive(...outcomes: WireOutcome[]): void {
    this.flusher.receive(null, outcomes);
  }

  #flush(outcomes: readonly WireOutcome[]): Promise<FlushResult> {
    return new Promise((resolve) => {
      this.flushes.push({
        ids: outcomes.map((outcome) => outcome.id),
        inline: outcomes.map(({ decision }) => decision.kind === "next" && decision.inline),
        end: async (answer = { committed: [...outcomes] }) => {
          resolve({ ...emptyResult(), ...answer });
          await settle();
        },
      });
    });
  }

  /** The ids of the flush number `n`, from 0. */
  ids(n: number): number[] | undefined {
    return this.flushes[n]?.ids;
  }

  inline(n: number): boolean[] | undefined {
    return this.flushes[n]?.inline;
  }

  end(n: number, answer?: Partial<FlushResult>): Promise<void> {
    const flush = this.flushes[n];
    if (flush === undefined) throw new Error(`no flush ${n}`);
    return flush.end(answer);
  }
}

/** Lets promises settle; no timer moves. */
async function settle(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve();
}

function outcome(id: number, result = "null"): WireOutcome {
  return {
    id,
    claim: "n/1",
    seat: id,
    generation: 1,
    fsm: "f",
    version: 1,
    step: "s",
    visit: 1,
    attempt: 0,
    queue: "q",
    parentId: null,
    parentVisit: null,
    awaited: [],
    shown: [],
    hasChildren: false,
    durationMs: 0,
    decision: { kind: "done", result },
  };
}

const lost = (id: number): LostRow => ({ id, claim: "n/1", seat: id, generation: 1, begun: true });

test("T3: an idle flusher with nothing on the way flushes at once", () => {
  const bench = new Bench();
  bench.receive(outcome(1));
  expect(bench.ids(0)).toEqual([1]);
});

test("T2: with others on the way it waits for them, up to maxDelayMs", () => {
  const bench = new Bench();
  bench.onTheWay = 5;
  bench.receive(outcome(1));
  jest.advanceTimersByTime(99);
  expect(bench.flushes).toHaveLength(0);
  jest.advanceTimersByTime(1);
  expect(bench.ids(0)).toEqual([1]);
});

test("FLU-08: at maxBatch it does not wait", () => {
  const bench = new Bench({ maxDelayMs: 60_000 });
  bench.onTheWay = 5;
  bench.receive(outcome(1), outcome(2));
  expect(bench.flushes).toHaveLength(0);
  bench.receive(outcome(3));
  expect(bench.ids(0)).toEqual([1, 2, 3]);
});

test("F2, FLU-10: outcomes that arrive during a flush join the next batch, none larger than maxBatch", async () => {
  const bench = new Bench();
  bench.receive(outcome(1));
  bench.receive(outcome(2), outcome(3));
  bench.receive(outcome(4), outcome(5));
  expect(bench.flushes).toHaveLength(1);
  await bench.end(0);
  expect(bench.ids(1)).toEqual([2, 3, 4]);
  await bench.end(1);
  expect(bench.ids(2)).toEqual([5]);
});

test("a batch is bounded in bytes, and holds one outcome at least", async () => {
  const bench = new Bench();
  const big = "x".repeat(BATCH_BYTES_MAX - 1_000);
  bench.receive(outcome(1, big), outcome(2, big), outcome(3, `${big}${big}`));
  expect(bench.ids(0)).toEqual([1]);
  await bench.end(0);
  expect(bench.ids(1)).toEqual([2]);
  await bench.end(1);
  expect(bench.ids(2)).toEqual([3]);
});

test("F4: pending bytes stand until the answer, and are then back to nothing", async () => {
  const bench = new Bench();
  const [a, b] = [outcome(1, "12345"), outcome(2)];
  bench.receive(a, b);
  expect(bench.pendingBytes).toBeGreaterThan(0);
  await bench.end(0, { committed: [a], deferred: [{ outcome: b, reason: "locked" }] });
  const rest = bench.pendingBytes;
  expect(rest).toBeGreaterThan(0);
  await jest.advanceTimersByTimeAsync(20);
  await bench.end(1, { stale: [b] });
  expect(bench.pendingBytes).toBe(0);
});

test("a row that was locked comes back after a delay that grows; it never spins", async () => {
  const bench = new Bench();
  const locked = outcome(1);
  bench.receive(locked);
  for (let i = 0; i < 10; i++) {
    await bench.end(i, { deferred: [{ outcome: locked, reason: "locked" }] });
    expect(bench.flushes).toHaveLength(i + 1);
    await jest.advanceTimersToNextTimerAsync();
  }
  const startedAtMs = Date.now();
  await bench.end(10, { deferred: [{ outcome: locked, reason: "locked" }] });
  await jest.advanceTimersToNextTimerAsync();
  expect(Date.now() - startedAtMs).toBeGreaterThan(300);
  expect(Date.now() - startedAtMs).toBeLessThan(700);
});

test("a row whose write had to wait shares no batch with others, and does not starve under load", async () => {
  const bench = new Bench();
  const waiting = outcome(1);
  bench.receive(waiting);
  await bench.end(0, { deferred: [{ outcome: waiting, reason: "waited" }] });
  bench.receive(outcome(2), outcome(3), outcome(4));
  expect(bench.ids(1)).toEqual([2, 3, 4]);
  bench.receive(outcome(5), outcome(6), outcome(7));
  await jest.advanceTimersByTimeAsync(100);
  await bench.end(1);
  expect(bench.ids(2)).toEqual([1]);
  await bench.end(2, { deferred: [{ outcome: waiting, reason: "waited" }] });
  expect(bench.ids(3)).toEqual([5, 6, 7]);
});

test("F3: a lost row that an outcome has arrived for is not given back", async () => {
  const bench = new Bench();
  bench.receive(outcome(1));
  bench.flusher.giveBack([lost(1), lost(2)]);
  await bench.end(0);
  await settle();
  expect(bench.returned).toEqual([[lost(2)]]);
  expect(bench.messages.filter((message) => message.type === "returned")).toEqual([
    { type: "returned", rows: [{ seat: 2, generation: 1 }], pokes: [] },
  ]);
});

test("a lost row that somebody holds locked is tried again, and answered once", async () => {
  const bench = new Bench();
  let tries = 0;
  bench.giveBackAnswer = (rows) => (tries++ === 0 ? { deferred: rows } : { returned: rows });
  bench.flusher.giveBack([lost(1)]);
  await settle();
  await jest.advanceTimersByTimeAsync(200);
  const rows = bench.messages.flatMap((message) => (message.type === "returned" ? message.rows : []));
  expect([tries, rows]).toEqual([2, [{ seat: 1, generation: 1 }]]);
});

test("drain waits for nothing that can be flushed, and ends only when everything has its answer", async () => {
  const bench = new Bench({ maxDelayMs: 60_000 });
  const locked = outcome(1);
  bench.onTheWay = 9;
  bench.receive(locked);
  bench.flusher.drain();
  await bench.end(0, { deferred: [{ outcome: locked, reason: "locked" }] });
  const drained = () => bench.messages.filter((message) => message.type === "drained").length;
  expect(drained()).toBe(0);
  await jest.advanceTimersByTimeAsync(20);
  await bench.end(1);
  await settle();
  expect(drained()).toBe(1);
});

test("FLU-19: a flush is answered once for the whole batch", async () => {
  const bench = new Bench();
  const [a, b] = [outcome(1), outcome(2)];
  bench.receive(a, b);
  await bench.end(0, { committed: [a], stale: [b], pokes: [{ queue: "q", dueInMs: 0 }], deadlineInMs: 5 });
  expect(bench.messages.filter((message) => message.type === "flushed")).toEqual([
    {
      type: "flushed",
      continued: [],
      committed: [{ seat: 1, generation: 1 }],
      stale: [{ seat: 2, generation: 1 }],
      pokes: [{ queue: "q", dueInMs: 0 }],
      deadlineInMs: 5,
    },
  ]);
});

describe("F4: steps that run ahead", () => {
  const ahead = (id: number): WireOutcome => ({
    ...outcome(id),
    decision: {
      kind: "next",
      step: "b",
      state: "{}",
      due: null,
      rateLimit: null,
      weight: 1,
      key: undefined,
      inline: true,
    },
  });
  const sessionOf = (answers: ToRunner[]): Session => ({
    thread: 0,
    session: 1,
    isOver: false,
    port: { postMessage: (answer: ToRunner) => answers.push(answer), close: () => undefined },
  });

  test("the mark is set before the thread hears of the commit, and only for rows that are still ours", async () => {
    const bench = new Bench();
    const answers: ToRunner[] = [];
    const [a, b] = [ahead(1), ahead(2)];
    bench.flusher.receive(sessionOf(answers), [a, b]);
    expect(bench.chained).toEqual([]);
    await bench.end(0, {
      continued: [a],
      stale: [b],
      inputs: new Map([[a, { inbox: "[1]", children: null }]]),
    });
    expect(bench.chained).toEqual([1]);
    expect(answers).toEqual([
      {
        type: "committed",
        tenancies: [1, 1],
        inputs: [{ seat: 1, generation: 1, inbox: "[1]", children: null }],
      },
      { type: "left", tenancies: [2, 1] },
    ]);
  });

  test("what a thread had posted when it ended is committed as if it had not asked to run ahead", async () => {
    const bench = new Bench();
    const session = sessionOf([]);
    bench.onTheWay = 2;
    bench.flusher.receive(session, [ahead(1)]);
    session.isOver = true;
    bench.onTheWay = 0;
    bench.flusher.consider();
    expect(bench.inline(0)).toEqual([false]);
  });

  test("a commit that was under way when the thread ended is followed by the row's return, without a crash", async () => {
    const bench = new Bench();
    const answers: ToRunner[] = [];
    const session = sessionOf(answers);
    const a = ahead(1);
    bench.flusher.receive(session, [a]);
    session.isOver = true;
    // It is known as lost, too, by whoever found its mark ended.
    bench.flusher.giveBack([lost(1)]);
    await bench.end(0, { continued: [a] });
    expect(bench.returned.flat()).toMatchObject([{ id: 1, begun: false }]);
    bench.flusher.giveBack([lost(1)]);
    await settle();
    expect(bench.returned.flat().at(-1)).toMatchObject({ id: 1, begun: false });
  });
});
