// User code that misbehaves: the thread lives, its neighbours notice nothing, and the instance learns of it.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { until } from "../support/until.js";
import { Rig } from "./rig.js";

const rig = new Rig({ workers: 1, queues: { default: 10 } });
beforeAll(() => rig.start());
afterAll(() => rig.close());

test("U1: a stray rejection is logged with its instance and changes nothing", async () => {
  const [id] = rig.run("stray", [{}]);
  expect(await rig.outcomeOf(id as number)).toEqual({ kind: "done", result: '"went on"' });
  const record = await until(() => rig.records.find((one) => one.instance === id));
  expect(record).toMatchObject({ level: 50, fsm: "stray", step: "start", err: { message: "left behind" } });
});

test("U1: an uncaught exception sends its step to handle", async () => {
  const [id] = rig.run("uncaught", [{}]);
  expect(await rig.outcomeOf(id as number)).toEqual({ kind: "stop", reason: "handled: from a timer" });
  await until(() => rig.records.some((one) => one.instance === id));
});

test("a step that never resolves holds its slot and nothing else", async () => {
  const [row] = rig.rows("never", [{}]);
  rig.crew.dispatch(row === undefined ? [] : [row]);
  await until(() => rig.crew.running(0) === 1);
  await rig.outcomesOf(rig.run("plain", [{}, {}, {}]));
  expect(rig.crew.freeSlots(0)).toBe(9);
});

test("G1: 10,000 lines of one step arrive; what is too much is dropped and counted", async () => {
  const before = rig.records.length;
  const [id] = rig.run("talker", [{ lines: 10_000 }]);
  await rig.outcomeOf(id as number);
  await until(() => rig.records.length - before >= 10_000);
  expect(rig.records.at(-1)).toMatchObject({ instance: id, line: 9_999, msg: "a line", name: "gen-durable" });
  expect(rig.dropped).toBe(0);
  const [flood] = rig.run("talker", [{ lines: 60_000 }]);
  await rig.outcomeOf(flood as number);
  await until(() => rig.dropped > 0);
  const written = rig.records.filter((one) => one.instance === flood).length;
  await until(() => rig.records.filter((one) => one.instance === flood).length + rig.dropped === 60_000, {
    describe: () => `${written} and ${rig.dropped}`,
  });
});

test("G2: what a step logs is a snapshot, and what cannot travel costs its own field", async () => {
  const [id] = rig.run("logger", [{}]);
  await rig.outcomeOf(id as number);
  const record = await until(() => rig.records.find((one) => one.instance === id));
  expect(record).toMatchObject({ earlier: { n: 1 }, big: "9007199254740993", err: { message: "logged" } });
  expect(record.cycle).toMatchObject({ self: "[Circular]" });
  expect(record).not.toHaveProperty("fn");
});

test("U2: what a step prints does not reach stdout", async () => {
  const { stdout } = process;
  const write = stdout.write;
  const printed: string[] = [];
  stdout.write = ((chunk: unknown) => printed.push(String(chunk)) > 0) as typeof stdout.write;
  try {
    await rig.outcomesOf(rig.run("talker", [{ lines: 0 }]));
    await rig.outcomesOf(rig.run("sleeper", [{ ms: 100 }]));
  } finally {
    stdout.write = write;
  }
  expect(printed.filter((text) => text.includes("on stdout?"))).toEqual([]);
});

test("P3: timers run in a thread that has no work", async () => {
  await rig.outcomesOf(rig.run("idler", [{}]));
  await until(
    async () => {
      const [outcome] = await rig.outcomesOf(rig.run("idler", [{ read: true }]));
      return outcome?.decision.kind === "done" && Number(outcome.decision.result) >= 3;
    },
    { everyMs: 50 },
  );
});

test("U3: a step that replaces the globals does not take the thread with it", async () => {
  await rig.outcomesOf(rig.run("vandal", [{}]));
  await rig.outcomesOf(
    rig.run(
      "plain",
      Array.from({ length: 200 }, () => ({})),
    ),
  );
  const [id] = rig.run("rejecter", [{}]);
  await rig.outcomeOf(id as number);
  await until(() => rig.records.some((one) => one.instance === id));
  expect(rig.sessions.length).toBe(1);
});
