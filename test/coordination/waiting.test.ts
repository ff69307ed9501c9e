// waitFor from a process that runs no engine: what a node elsewhere commits reaches the caller, at a bounded cost.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { type Client, createClient } from "gen-durable";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { FAR_POLLS, type NodeProcess, startNode } from "../support/node.js";
import { hold, plain, sleeper } from "../support/probes/basic.js";
import { insertRows } from "../support/rows.js";
import { logStatements, markStatements, statementsSince } from "../support/statements.js";
import { until } from "../support/until.js";

const database = await createDatabase();
let client: Client;
let node: NodeProcess;

beforeAll(async () => {
  await createAudit(database);
  await logStatements(database);
  client = createClient({ url: database.url });
  node = await startNode({ database, fsms: ["basic"], config: { ...FAR_POLLS, queues: { default: 20 } } });
}, 60_000);
afterAll(() => client.close());

const looksSince = (mark: number) =>
  statementsSince(database, mark).filter(({ name }) => name?.startsWith("watch_instances")).length;

test("WAIT-01: insert and wait, with far polls, in well under a poll", async () => {
  const startedMs = performance.now();
  const { id } = await client.insert(plain);
  expect(await client.waitFor(id, { timeoutMs: 10_000 })).toEqual({ status: "done", result: null });
  expect(performance.now() - startedMs).toBeLessThan(5_000);
});

test("a result that a node commits reaches the caller within moments of its commit", async () => {
  const lateMs: number[] = [];
  for (let n = 0; n < 10; n++) {
    const { id } = await client.insert(sleeper, { state: { ms: 30 } });
    await client.waitFor(id, { timeoutMs: 10_000 });
    const heardAtMs = Date.now();
    const { at } = await database.one<{ at: number }>(
      "SELECT extract(epoch FROM updated_at)::float8 * 1000 AS at FROM gen_durable WHERE id = $1",
      [id],
    );
    lateMs.push(heardAtMs - at);
  }
  // Tens of milliseconds on a quiet machine; what matters on a busy one is that it is no poll of seconds.
  expect(lateMs.sort((a, b) => a - b)[5]).toBeLessThan(500);
});

test("WAIT-02: busy at the deadline; asking again is how to wait longer", async () => {
  const { id } = await client.insert(hold, { state: { name: "busy" } });
  expect(await client.waitFor(id, { timeoutMs: 100 })).toEqual({ status: "busy", step: "start" });
  const again = client.waitFor(id, { timeoutMs: 20_000 });
  await letGo(database, "busy");
  expect(await again).toEqual({ status: "done", result: "held" });
});

test("WAIT-08: the client's connections are terminated in mid-wait, and the answer still comes", async () => {
  const { id } = await client.insert(hold, { state: { name: "cut" } });
  const startedMs = performance.now();
  const pending = client.waitFor(id, { timeoutMs: 20_000 });
  await until(async () => (await readAudit(database, id)).length === 1);
  for (let cut = 0; cut < 3; cut++) {
    const mark = markStatements(database);
    await database.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE application_name = 'gen-durable client' AND datname = current_database()`,
    );
    await until(() => looksSince(mark) > 0);
  }
  await letGo(database, "cut");
  expect(await pending).toEqual({ status: "done", result: "held" });
  expect(performance.now() - startedMs).toBeLessThan(15_000);
});

test("WAIT-10: ten thousand waiters cost one query a tick, and a node's commits end just their own waits", async () => {
  const sleepers = await insertRows(database, 9_900, { queue: "nobody's" });
  const controller = new AbortController();
  const waits = sleepers.map((id) =>
    client.waitFor(id, { timeoutMs: 60_000, signal: controller.signal }).catch((error: unknown) => error),
  );
  const mark = markStatements(database);
  const startedMs = performance.now();
  const inserted = await client.insertMany(plain, Array(100).fill({}));
  const answers = await Promise.all(inserted.map(({ id }) => client.waitFor(id, { timeoutMs: 30_000 })));
  expect(answers).toEqual(inserted.map(() => ({ status: "done", result: null })));
  const ticks = (performance.now() - startedMs) / 25;
  // One a tick, and one more at once where something has ended.
  expect(looksSince(mark)).toBeLessThanOrEqual(2 * ticks + 2);
  const reason = new Error("the caller has gone");
  controller.abort(reason);
  expect(new Set(await Promise.all(waits))).toEqual(new Set([reason]));
  const quiet = markStatements(database);
  // Another call goes by, and nobody looks for those that are gone.
  await client.get(sleepers[0] ?? 0);
  await client.list();
  expect(looksSince(quiet)).toBeLessThanOrEqual(1);
}, 60_000);

test("WAIT-07: the engine stops in mid-wait; the caller gets busy at its deadline", async () => {
  const { id } = await client.insert(hold, { state: { name: "never" } });
  await until(async () => (await readAudit(database, id)).length === 1);
  const pending = client.waitFor(id, { timeoutMs: 1_500 });
  await node.kill();
  expect(await pending).toEqual({ status: "busy", step: "start" });
});
