// Signals and awaits on a real node: what a woken step sees, how often it is woken, and that deadlines are kept.

import { beforeAll, expect, test } from "@jest/globals";
import { createClient } from "gen-durable";
import { createAudit, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { FAR_POLLS, type NodeProcess, startNode } from "../support/node.js";
import { awaiter, awaitRetry, awaitTimeout, collector, selector } from "../support/probes/waiting.js";
import { readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { turns } from "./machines.js";

const database = await createDatabase();
const client = createClient({ pool: database.pool });
let node: NodeProcess;

const start = () =>
  startNode({
    database,
    fsms: ["waiting", "test/coordination/machines.ts"],
    // No poll and no reaper finds anything here in time.
    config: { ...FAR_POLLS, queues: { default: 50 }, reaper: { intervalMs: 60_000 } },
  });

beforeAll(async () => {
  await createAudit(database);
  await recordHistory(database);
  node = await start();
}, 60_000);

const done = async (id: number): Promise<unknown> => {
  const answer = await client.waitFor(id, { timeoutMs: 10_000 });
  if (answer.status !== "done") throw new Error(`instance ${id}: ${JSON.stringify(answer)}`);
  return answer.result;
};
const parked = (id: number) => client.waitFor(id, { timeoutMs: 10_000, until: ["awaiting"] });
/** How often it was claimed; a lease that is extended is no other claim. */
const claimsOf = async (id: number): Promise<number> =>
  new Set((await readHistory(database, id)).flatMap(({ locked_by }) => locked_by ?? [])).size;
const inboxOf = (id: number) =>
  database.query(
    "SELECT name, dedup_key, consumed_at IS NOT NULL AS consumed FROM signals WHERE target_id = $1",
    [id],
  );

test("AWT-01, AWT-02: a park on two names; what arrives is what the next step sees", async () => {
  const { id } = await client.insert(selector);
  expect(await parked(id)).toEqual({ status: "awaiting", step: "chosen" });
  expect(await readRow(database, id)).toMatchObject({
    awaits: ["approve", "reject"],
    locked_by: null,
    lease_expires_at: null,
    await_deadline: null,
  });
  await client.signal(id, "other");
  await client.signal(id, "reject", { why: "late" });
  expect(await done(id)).toEqual({ name: "reject", payload: { why: "late" } });
  expect(await claimsOf(id)).toBe(2);
  // SIG-11: done empties the inbox, what was never awaited included.
  expect(await inboxOf(id)).toEqual([]);
});

test("a signal that is there before anybody awaits its name wakes the await at once", async () => {
  const { id } = await client.insert(awaiter, { delayMs: 200 });
  await client.signal(id, "go", "early");
  expect(await done(id)).toBe("early");
});

test("G3: a webhook that is delivered twice wakes once, also when the first was consumed long ago", async () => {
  const { id } = await client.insert(collector, { correlationKey: "pack:1" });
  await parked(id);
  await client.signal("pack:1", "a", 1, { dedupKey: "evt-a" });
  await until(async () => (await claimsOf(id)) === 2);
  await parked(id);
  expect(await client.signal("pack:1", "a", 1, { dedupKey: "evt-a" })).toEqual({ ok: true });
  await client.signal("pack:1", "b", 2);
  await until(async () => (await claimsOf(id)) === 3);
  await client.signal("pack:1", "c", 3);
  expect(await done(id)).toEqual({ sum: 6 });
  expect(await claimsOf(id)).toBe(4);
  expect(await inboxOf(id)).toEqual([{ name: "a", dedup_key: "evt-a", consumed: true }]);
});

test("AWT-04, AWT-05: a collector with two of three parks quietly; the third wakes it", async () => {
  const { id } = await client.insert(collector);
  await parked(id);
  await client.signalMany([
    { target: id, name: "a", payload: 10 },
    { target: id, name: "b", payload: 20 },
  ]);
  await until(
    async () => (await claimsOf(id)) === 2 && (await readRow(database, id)).status === "awaiting_signal",
  );
  // What would spin: more of the same name, and other work that makes the node pick all the time.
  await client.signal(id, "b", 2);
  await until(async () => (await claimsOf(id)) === 3);
  await Promise.all((await client.insertMany(selector, Array(40).fill({}))).map((one) => parked(one.id)));
  expect(await readRow(database, id)).toMatchObject({ status: "awaiting_signal" });
  expect(await claimsOf(id)).toBe(3);
  await client.signal(id, "c", 30);
  expect(await done(id)).toEqual({ sum: 62 });
  expect(await claimsOf(id)).toBe(4);
});

test("a machine that awaits by turns, and consumes nothing, is woken by what is new", async () => {
  const { id } = await client.insert(turns);
  await parked(id);
  const turn = async (name: string, claims: number): Promise<void> => {
    await client.signal(id, name);
    await until(
      async () =>
        (await claimsOf(id)) === claims && (await readRow(database, id)).status === "awaiting_signal",
    );
  };
  // Back at the first name with its old signal in the inbox: it was handed over, so it wakes nobody again.
  await turn("a", 2);
  await turn("b", 3);
  await turn("a", 4);
  await client.signal(id, "end");
  expect(await done(id)).toEqual(["a", "b", "a", "end"]);
  expect(await claimsOf(id)).toBe(5);
});

test("AWT-13, RET-03: a woken step that retries sees the same signals again", async () => {
  const { id } = await client.insert(awaitRetry);
  await parked(id);
  await client.signal(id, "go", { v: 7 });
  expect(await done(id)).toEqual({ v: 7 });
  const woken = (await readAudit(database, id)).filter(({ step }) => step === "woken");
  expect(woken.map(({ attempt }) => attempt)).toEqual([0, 1]);
  expect(woken[0]?.note).toEqual(woken[1]?.note);
});

test("AWT-07: a signal before the deadline wins, and the deadline does not fire afterwards", async () => {
  const { id } = await client.insert(awaitTimeout, { state: { timeoutMs: 150 } });
  await parked(id);
  await client.signal(id, "go", "in time");
  expect(await done(id)).toBe("in time");
  // Another deadline, later than this one's would have been: it has fired, so that one would have.
  const { id: later } = await client.insert(awaitTimeout, { state: { timeoutMs: 200 } });
  expect(await done(later)).toBe("timed out");
  expect(await claimsOf(id)).toBe(2);
});

test("AWT-10: deadlines fire within tens of milliseconds of their time, with polls and reaper far", async () => {
  const rows = Array.from({ length: 40 }, (_, n) => ({ state: { timeoutMs: 100 + n * 13 } }));
  const ids = (await client.insertMany(awaitTimeout, rows)).map(({ id }) => id);
  await Promise.all(ids.map(done));
  const late = await database.query<{ ms: number }>(
    `SELECT extract(epoch FROM woken.entered_at - parked.at)::float8 * 1000 - (i.state->>'timeoutMs')::float8 AS ms
     FROM gen_durable i
     JOIN public.test_audit woken ON woken.instance = i.id AND woken.step = 'woken'
     JOIN LATERAL (SELECT min(at) AS at FROM test_history h WHERE h.id = i.id AND h.status = 'awaiting_signal') parked ON true
     WHERE i.id = ANY ($1) ORDER BY ms`,
    [ids],
  );
  expect(late).toHaveLength(40);
  // A deadline counts from the start of the transaction that parks; the audit's own statement takes a moment.
  expect(late[0]?.ms).toBeGreaterThan(-50);
  // Tens of milliseconds on a quiet machine (benchmarks/latency.ts); a busy one must still be far from every other timer.
  expect(late[20]?.ms).toBeLessThan(1_000);
});

test("AWT-11: a deadline that passed while every node was down fires when one starts", async () => {
  const { id } = await client.insert(awaitTimeout, { state: { timeoutMs: 300 } });
  await parked(id);
  await node.kill();
  await until(
    async () =>
      (await database.query("SELECT 1 FROM gen_durable WHERE id = $1 AND await_deadline < now()", [id]))
        .length === 1,
  );
  expect(await readRow(database, id)).toMatchObject({ status: "awaiting_signal" });
  node = await start();
  expect(await done(id)).toBe("timed out");
  expect(illegalMoves(await readHistory(database))).toEqual([]);
}, 60_000);
