// Chains on a real node: the next step runs on the claim already held, and nothing else is different.
import { afterEach, beforeAll, expect, test } from "@jest/globals";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { insertRow, insertSignal, readRow } from "../support/rows.js";
import { seededRandom } from "../support/seed.js";
import { until } from "../support/until.js";
import type { Stop } from "./machines.js";
import { claims, ended, insertWalk, poke, startWalkers, stopsOf } from "./rig.js";

const database = await createDatabase();

beforeAll(async () => {
  await createAudit(database);
  await recordHistory(database);
  await startWalkers(database, { queues: { default: 10, single: 1 }, inlineMaxMs: 1_500 });
});
afterEach(async () => {
  expect(illegalMoves(await readHistory(database))).toEqual([]);
  await database.query("TRUNCATE gen_durable, signals, public.test_audit, public.test_control, test_history");
});

test("INL-01, INL-13: three steps, one claim: never runnable in between, one owner, an attempt of 0, a new visit each", async () => {
  const id = await insertWalk(database, stopsOf(3));
  await ended(database, id);
  const [inserted, claimed, ...rest] = await readHistory(database, id);
  expect(inserted).toMatchObject({ status: "runnable", visit: 1 });
  expect(rest).toMatchObject([
    { status: "executing", visit: 2, attempt: 0, locked_by: claimed?.locked_by },
    { status: "executing", visit: 3, attempt: 0, locked_by: claimed?.locked_by },
    { status: "done", locked_by: null },
  ]);
  const audit = await readAudit(database, id);
  expect(new Set(audit.map(({ thread }) => thread)).size).toBe(1);
  expect(audit.map(({ note }) => note)).toEqual(
    [1, 2, 3].map((visit) => ({ at: visit - 1, key: `${id}:walk:${visit}` })),
  );
  // H1: a step begins after the commit of the one before it.
  const commits = rest.map(({ at }) => at.getTime());
  audit.slice(1).forEach(({ entered_at }, n) => {
    expect(entered_at.getTime()).toBeGreaterThanOrEqual(commits[n] ?? 0);
  });
});

test.each<[string, Stop[], number]>([
  ["INL-02: a transition with inline: false is claimed anew", [{ to: { inline: false } }, {}, {}], 2],
  ["a delay is never run ahead of", [{ to: { delayMs: 1 } }, {}, {}], 2],
  ["INL-08: nor is a key that is no gate", [{ to: { concurrencyKey: "account:1" } }, {}, {}], 2],
  ["a retry ends the chain, and it goes on after it", [{}, { instead: "retry" }, {}], 3],
  ["an error goes to handle, and the chain goes on from there", [{}, { instead: "throw" }, {}], 1],
])("%s", async (_, stops, expected) => {
  const id = await insertWalk(database, stops);
  expect(await ended(database, id)).toMatchObject({ status: "done" });
  expect(claims(await readHistory(database, id))).toBe(expected);
});

test("without `inline: true` a machine is claimed for each step, and a transition may ask for it", async () => {
  const id = await insertWalk(database, [{}, { to: { inline: true } }, {}], { fsm: "requeued" });
  await ended(database, id);
  expect(claims(await readHistory(database, id))).toBe(2);
});

test("INL-16: stop ends a chain", async () => {
  const id = await insertWalk(database, [{}, { instead: "stop" }]);
  expect(await ended(database, id)).toMatchObject({ status: "failed", last_error: "stopped at 1" });
  expect(claims(await readHistory(database, id))).toBe(1);
});

test("a step of a chain finds the signals that came meanwhile, and nothing is awaited", async () => {
  const id = await insertWalk(database, [{ hold: "h" }, {}, {}]);
  await until(async () => (await readAudit(database, id)).length === 1);
  await insertSignal(database, id, "news");
  await letGo(database, "h");
  const { result } = await ended(database, id);
  expect(result).toEqual(["0|0|null|||", "1|0|null|news||", "2|0|null|news||"]);
  expect(claims(await readHistory(database, id))).toBe(1);
});

test("a join's children are there for the whole chain, and awaited signals for one step", async () => {
  const stops: Stop[] = [{}, { instead: "children" }, {}, { instead: "await" }, {}, {}];
  const results = [];
  for (const fsm of ["chained", "requeued"]) {
    const id = await insertWalk(database, stops, { fsm });
    await until(async () => (await readRow(database, id)).status === "awaiting_signal");
    await insertSignal(database, id, "other");
    await insertSignal(database, id, "go");
    await database.query(
      "UPDATE gen_durable SET status = 'runnable', wake_reason = 'signal', await_deadline = NULL WHERE id = $1",
      [id],
    );
    await poke(database);
    results.push((await ended(database, id)).result);
  }
  expect(results[0]).toEqual([
    "0|0|null|||",
    "1|0|null|||",
    "2|0|children|||done:1",
    "3|0|null|||done:1",
    "4|0|signal|other+go|go|done:1",
    "5|0|null|other||done:1",
  ]);
  expect(results[1]).toEqual(results[0]);
});

test("plans of chance end the same with run-ahead and without", async () => {
  const random = seededRandom("chain");
  const kinds: Stop[] = [
    {},
    {},
    {},
    { ms: 1 },
    { instead: "throw" },
    { instead: "retry" },
    { instead: "children" },
    { to: { inline: false } },
    { to: { concurrencyKey: null } },
  ];
  const plans = Array.from({ length: 20 }, () =>
    Array.from({ length: random.between(1, 8) }, () => kinds[random.between(0, kinds.length - 1)] ?? {}),
  );
  const ends = async (fsm: string): Promise<unknown[]> => {
    const ids = [];
    for (const stops of plans) ids.push(await insertRow(database, { fsm, step: "walk", state: { stops } }));
    await poke(database);
    const rows = [];
    for (const id of ids) rows.push(await ended(database, id));
    return rows.map(({ status, result, last_error, visit, attempt }) => ({
      status,
      result,
      last_error,
      visit,
      attempt,
    }));
  };
  const withIt = await ends("chained");
  expect(withIt).toEqual(await ends("requeued"));
});

test("INL-17: with one slot, a claimed row that is more urgent goes first at the chain's next commit; others wait", async () => {
  const queue = "single";
  const id = await insertWalk(database, [{ hold: "h" }, {}, {}], { queue, priority: 5 });
  await until(async () => (await readAudit(database, id)).length === 1);
  const equal = await insertWalk(database, [{}], { queue, priority: 5 });
  const urgent = await insertWalk(database, [{}], { queue, priority: 1 });
  // Prefetch is what a claim ahead of a slot is; here it is made sure of.
  await until(
    async () => (await readRow(database, urgent)).status !== "runnable" || (await letGo(database, "h")),
  );
  await letGo(database, "h");
  for (const each of [id, equal, urgent]) await ended(database, each);
  const order = (await readAudit(database)).map(({ instance }) => instance);
  expect(order.indexOf(urgent)).toBeLessThan(order.indexOf(equal));
  expect(order[0]).toBe(id);
});

test("a chain that has had its time goes back to its queue, and what is more urgent there is next", async () => {
  const queue = "single";
  const id = await insertWalk(database, stopsOf(12, { ms: 300 }), { queue, priority: 5 });
  await until(async () => (await readAudit(database, id)).length > 0);
  const urgent = await insertWalk(database, [{}], { queue, priority: 1 });
  await ended(database, urgent);
  expect((await readAudit(database, id)).length).toBeLessThan(12);
  await ended(database, id);
  expect(claims(await readHistory(database, id))).toBeGreaterThan(1);
});

test("a cancel that comes during a chain becomes of its next commit", async () => {
  const id = await insertWalk(database, [{}, { hold: "h" }, {}, {}]);
  await until(async () => (await readAudit(database, id)).length === 2);
  await database.query(
    "UPDATE gen_durable SET cancel_requested = true, cancel_reason = 'enough' WHERE id = $1",
    [id],
  );
  await letGo(database, "h");
  expect(await ended(database, id)).toMatchObject({ status: "done", result: "cleaned up: enough" });
  expect((await readAudit(database, id)).map(({ step }) => step)).toEqual(["walk", "walk", "cleanUp"]);
});

test("a step that must not run twice is claimed anew, so that its beginning is on record", async () => {
  const id = await insertWalk(database, [{}, { step: "once" }, {}, {}]);
  await ended(database, id);
  expect(claims(await readHistory(database, id))).toBe(2);
});

test("a step of a chain that blocks its thread past its time limit goes to handle with what its chain had made of the state", async () => {
  const id = await insertRow(database, { fsm: "limited", step: "first", state: { ms: 3_000 } });
  await poke(database);
  expect(await ended(database, id)).toMatchObject({
    status: "done",
    result: { step: "second", ms: 3_001, error: "StepTimeoutError" },
    visit: 3,
  });
  expect((await readAudit(database, id)).map(({ step }) => step)).toEqual(["first", "second"]);
});

test("a thread that dies in a chain costs the step that ran one crash, and nothing of the steps before it", async () => {
  const id = await insertWalk(database, [{}, {}, { exit: true }, {}, {}]);
  const { result } = await ended(database, id);
  expect(result).toEqual([0, 1, 2, 3, 4].map((at) => `${at}|${at === 2 ? 1 : 0}|null|||`));
  const history = await readHistory(database, id);
  expect(Math.max(...history.map(({ crashes }) => crashes ?? 0))).toBe(1);
  expect((await readAudit(database, id)).map(({ note }) => (note as { at: number }).at)).toEqual([
    0, 1, 2, 2, 3, 4,
  ]);
});
