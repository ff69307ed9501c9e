// Rows through real threads: order, permits, stealing, quarantine, and threads that die or stand still.

import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import { until } from "../support/until.js";
import { fixture, Rig, withRig } from "./rig.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void; // the flag makes it one

const many = (count: number, state: object = {}): object[] => Array.from({ length: count }, () => state);

// One crew for what leaves its threads alive: starting threads is what costs time here.
describe("threads that live", () => {
  const rig = new Rig({ workers: 2, queues: { default: 10, one: 1, two: 2, five: 5 } });
  const [TEN, ONE, TWO, FIVE] = [0, 1, 2, 3] as const;
  beforeAll(() => rig.start());
  afterAll(() => rig.close());
  afterEach(async () => {
    await until(() => rig.held.count === 0, { describe: "no row left" });
    for (const [queue, slots] of [10, 1, 2, 5].entries()) {
      await until(() => rig.crew.freeSlots(queue) === slots, { describe: "all permits back" });
      expect(rig.crew.unstarted(queue)).toBe(0);
    }
    expect(rig.ledger.onTheWay(0)).toBe(0);
    expect(rig.lost).toEqual([]);
    expect(rig.sessions.length).toBe(2);
  });

  test("a chain whose last commit is told before its end is not kept", async () => {
    const chains = rig.rows("plain", many(100)).map((held) => {
      held.thread = 0;
      const { seat, generation } = held.row;
      const to = { seat, generation, step: "start", visit: 1, key: undefined, needsAdmission: false };
      rig.crew.continued([{ held, to }]);
      rig.held.release(seat, generation);
      rig.crew.released([held]);
      return new WeakRef(held);
    });
    await until(() => {
      collectGarbage();
      return chains.every((chain) => chain.deref() === undefined);
    });
  });

  test("D1: every row of a batch has one outcome, and short steps travel together", async () => {
    const states = Array.from({ length: 1_000 }, (_, n) => ({ n }));
    const ids = rig.run("plain", states);
    const outcomes = await rig.outcomesOf(ids);
    expect(outcomes.map(({ decision }) => decision)).toEqual(
      ids.map((_, n) => ({ kind: "done", result: String(n) })),
    );
    // Short steps travel together.
    expect(rig.batches.length).toBeLessThan(200);
  });

  test("D1: two rows start in two threads", async () => {
    // A thread that the machine does not run for 50 ms loses its row to the other one: such a try proves nothing.
    await until(
      async () => {
        const threads = await rig.outcomesOf(rig.run("where", many(2)));
        return new Set(threads.map(({ decision }) => JSON.stringify(decision))).size === 2;
      },
      { describe: "two rows start in two threads" },
    );
  });

  test("S1: with one permit rows run one at a time, in the order of their claims", async () => {
    const from = rig.order.length;
    const ids = rig.run("sleeper", many(4, { ms: 30 }), { queue: "one" });
    let mostRunning = 0;
    await until(
      () => {
        mostRunning = Math.max(mostRunning, rig.crew.running(ONE));
        return ids.every((id) => rig.outcomes.has(id));
      },
      { everyMs: 1 },
    );
    expect(mostRunning).toBe(1);
    expect(rig.order.slice(from)).toEqual(ids);
  });

  test("M1: never more rows of a queue run than its concurrency, whatever blocks and moves", async () => {
    const ids = [
      ...rig.run("blocker", many(4, { ms: 120 }), { queue: "five" }),
      ...rig.run("sleeper", many(40, { ms: 20 }), { queue: "five" }),
      ...rig.run("sleeper", many(20, { ms: 20 }), { queue: "two" }),
    ];
    const most = new Map<number, number>();
    await until(
      () => {
        for (const queue of [FIVE, TWO])
          most.set(queue, Math.max(most.get(queue) ?? 0, rig.crew.running(queue)));
        return ids.every((id) => rig.outcomes.has(id));
      },
      { everyMs: 2 },
    );
    expect(most.get(FIVE)).toBeLessThanOrEqual(5);
    expect(most.get(TWO)).toBe(2);
  });

  test("W1: rows behind a blocked loop begin elsewhere, long before the loop turns again", async () => {
    const [blocked] = rig.run("blocker", [{ ms: 2_500 }]);
    await rig.outcomesOf(rig.run("plain", many(50)), 2_000);
    expect(rig.outcomes.has(blocked as number)).toBe(false);
    // While it stands still it gets nothing new, and its permits are elsewhere.
    expect(rig.crew.freeSlots(TEN)).toBe(9);
    await rig.outcomesOf(rig.run("plain", many(50)), 2_000);
    expect(rig.outcomes.has(blocked as number)).toBe(false);
    await rig.outcomeOf(blocked as number);
  });

  test("W1: a row behind a slow one is stolen by a thread with a free slot", async () => {
    const [slow, ...rest] = rig.run("sleeper", [{ ms: 2_500 }, ...many(3, { ms: 1 })], { queue: "two" });
    await rig.outcomesOf(rest, 2_000);
    expect(rig.outcomes.has(slow as number)).toBe(false);
    await rig.outcomeOf(slow as number);
  });

  test("S2: a row whose claim is too old is dropped unbegun, and a running one is told", async () => {
    const [old] = rig.run("plain", [{}], { trustedForMs: 50 });
    await until(() => rig.distrusted.includes(old as number));
    expect(rig.outcomes.has(old as number)).toBe(false);
    const [running] = rig.run("patient", [{ ms: 20_000 }], { trustedForMs: 1_500 });
    expect(await rig.outcomeOf(running as number)).toEqual({
      kind: "done",
      result: '"ERR_GEN_DURABLE_STEP_ABORTED"',
    });
  });

  test("abort reaches a running step; recallUnstarted takes back the rest", async () => {
    const [first, ...rest] = rig.rows("patient", many(4, { ms: 20_000 }), { queue: "one" });
    rig.crew.dispatch(first === undefined ? [] : [first, ...rest]);
    await until(() => rig.crew.running(ONE) === 1);
    const recalled = rig.crew.recallUnstarted();
    expect(recalled.map(({ row }) => row.id)).toEqual(rest.map(({ row }) => row.id));
    for (const { row } of recalled) rig.held.release(row.seat, row.generation);
    rig.crew.abort(first?.row.seat ?? -1, "cancelled");
    expect(await rig.outcomeOf(first?.row.id ?? -1)).toMatchObject({ kind: "done" });
  });

  test("Q1: quarantined rows run one at a time, alone, while the others go on", async () => {
    const suspects = rig.run("sleeper", many(4, { ms: 60 }), { crashes: 1 });
    const ordinary = rig.run("sleeper", many(40, { ms: 5 }));
    await rig.outcomesOf(ordinary);
    await rig.outcomesOf(suspects);
    expect(rig.order.filter((id) => suspects.includes(id))).toEqual(suspects);
  });

  test("W2: a step that listens is asked to end, and its handle has a signal of its own", async () => {
    const [id] = rig.run("obedient", [{}]);
    expect(await rig.outcomeOf(id as number)).toEqual({
      kind: "stop",
      reason: "handled: ERR_GEN_DURABLE_STEP_TIMEOUT, fresh signal: true",
    });
  });

  test("W2: a step that ends within its grace keeps its outcome and its thread", async () => {
    const [id] = rig.run("stubborn", [{ ms: 300 }]);
    expect(await rig.outcomeOf(id as number)).toEqual({ kind: "done", result: '"slept"' });
  });

  test("W3: a chain's step is judged by its own time limit, also before the crew has heard of it", async () => {
    const [id] = rig.run("relaxing", [{ ms: 1_300 }]);
    expect(await rig.outcomeOf(id as number)).toEqual({ kind: "done", result: '"slept"' });
    expect(rig.continued).toMatchObject([{ to: { step: "rest" } }]);
  });

  test("with one thread, quarantined and ordinary rows take turns", () =>
    withRig({ workers: 1, queues: { default: 10 } }, async (rig) => {
      const suspects = rig.run("sleeper", many(5, { ms: 20 }), { crashes: 1 });
      const ordinary = rig.run("sleeper", many(100, { ms: 20 }));
      await rig.outcomesOf([...suspects, ...ordinary]);
      const lastSuspect = Math.max(...suspects.map((id) => rig.order.indexOf(id)));
      expect(rig.order.slice(0, lastSuspect).some((id) => ordinary.includes(id))).toBe(true);
    }));

  test("C1: rows that had not begun are not lost, and an ended step's outcome counts", () =>
    withRig({ workers: 1, queues: { default: 2 }, returnsLost: false }, async (rig) => {
      const [first] = rig.run("plain", [{}]);
      const [poison] = rig.run("poison", [{}]);
      const rest = rig.run("plain", many(20));
      await rig.outcomesOf([first as number, ...rest]);
      expect(rig.lost.map(({ id }) => id)).toEqual([poison]);
    }));

  test("S4: a thread in which the engine's own code cannot run any more ends, and keeps no row", () =>
    withRig({ workers: 1, queues: { default: 10 }, crashLimit: 1 }, async (rig) => {
      const [wrecker] = rig.run("wrecker", [{}]);
      expect(await rig.outcomeOf(wrecker as number)).toMatchObject({ kind: "stop" });
      await rig.outcomesOf(rig.run("plain", many(10)));
      expect(rig.sessions.length).toBe(2);
    }));

  test("a thread that runs out of memory is replaced, and the node goes on", () =>
    withRig({ workers: 2, queues: { default: 10 }, heapMb: 48, crashLimit: 1 }, async (rig) => {
      const [glutton] = rig.run("glutton", [{}]);
      expect(await rig.outcomeOf(glutton as number, 25_000)).toMatchObject({ kind: "stop" });
      expect(
        rig.logs.some(
          ({ message, fields }) => /has died/.test(message) && /memory/.test(String(fields.reason)),
        ),
      ).toBe(true);
      await rig.outcomesOf(rig.run("plain", many(10)));
    }));
});

describe("time limits", () => {
  test("W2, C3: a step that does not end goes to handle after its thread is gone; its neighbours finish", () =>
    withRig({ workers: 1, queues: { default: 10 } }, async (rig) => {
      const [stubborn] = rig.run("stubborn", [{ ms: 60_000 }]);
      const neighbours = rig.run("shrinker", many(8, { ms: 1_800 }));
      expect(await rig.outcomeOf(stubborn as number)).toEqual({
        kind: "stop",
        reason: "handled: ERR_GEN_DURABLE_STEP_TIMEOUT",
      });
      await rig.outcomesOf(neighbours);
      expect(rig.lost).toEqual([]);
      // All share its thread, so it is replaced only after the last of them.
      expect(rig.order.at(-1)).toBe(stubborn);
    }));

  test("W2: a loop that stands still for good ends with its thread", () =>
    withRig({}, async (rig) => {
      const [wall] = rig.run("wall", [{}]);
      expect(await rig.outcomeOf(wall as number)).toEqual({
        kind: "stop",
        reason: "handled: ERR_GEN_DURABLE_STEP_TIMEOUT",
      });
      await until(() => rig.isWhole());
      expect(rig.crashes.size).toBe(0);
    }));
});

describe("definitions", () => {
  // See fixtures/changing.mjs.
  const changes = join(tmpdir(), `gen-durable-changing-${process.pid}`);
  afterAll(() => rm(changes, { force: true }));

  test("a module that cannot be loaded refuses the start, naming the file", async () => {
    await withRig({ modules: [fixture("broken.mjs")] }, async (rig) => {
      expect(rig.refusal?.message).toContain("broken.mjs");
      expect(rig.refusal?.message).toContain("this module does not load");
    });
  });

  test("N2: a respawned thread with other definitions is refused, and the log says to restart", () =>
    withRig(
      { workers: 2, modules: [fixture("steps.mjs"), fixture("changing.mjs")], returnsLost: false },
      async (rig) => {
        await writeFile(changes, "");
        rig.run("poison", [{}]);
        await until(() => rig.logs.some(({ message }) => /restart the node/.test(message)));
        await rig.outcomesOf(rig.run("plain", many(5)));
        expect(rig.isWhole()).toBe(false);
      },
    ));

  test("the catalogue tells steps, time limits and files", () =>
    withRig({ workers: 1 }, async (rig) => {
      expect(rig.catalogue?.find(({ name }) => name === "stubborn")).toMatchObject({
        version: 1,
        queue: "default",
        initialStep: "start",
        steps: [{ name: "start", timeoutMs: 50, rerunAfterCrash: true }],
        source: fixture("steps.mjs"),
      });
    }));
});

describe("closing", () => {
  test("what has ended is posted, what still runs is told as cut off, without a crash", async () => {
    let lost: unknown;
    await withRig({ workers: 2, returnsLost: false }, async (rig) => {
      const [hangs] = rig.run("never", [{}]);
      const ids = rig.run("plain", many(100));
      await rig.outcomesOf(ids);
      await rig.close();
      await sleep(30);
      expect(rig.lost).toMatchObject([{ id: hangs, begun: false }]);
      lost = rig.lost;
    });
    expect(lost).toBeDefined();
  });

  test("a thread whose loop stands still does not hold up the end", () =>
    withRig({ workers: 1, returnsLost: false }, async (rig) => {
      rig.run("blocker", [{ ms: 60_000 }]);
      await until(() => rig.crew.running(0) === 1);
    }));
});
