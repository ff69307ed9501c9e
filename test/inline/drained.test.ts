// Chains on nodes that are drained and stopped.
import { afterEach, beforeAll, expect, test } from "@jest/globals";
import { gateErrors } from "../limits/rig.js";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import type { NodeProcess } from "../support/node.js";
import { insertRow, readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { ended, insertWalk, poke, startWalkers, stopsOf } from "./rig.js";

const database = await createDatabase();
const nodes: NodeProcess[] = [];

async function start(config: Record<string, unknown> = {}): Promise<NodeProcess> {
  const node = await startWalkers(database, { concurrencyLimits: { one: { limit: 1 } }, ...config });
  nodes.push(node);
  return node;
}

beforeAll(async () => {
  await createAudit(database);
  await recordHistory(database);
});
afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.kill()));
  expect(illegalMoves(await readHistory(database))).toEqual([]);
  await database.query(
    "TRUNCATE gen_durable, signals, gen_durable_buckets, public.test_audit, public.test_control, test_history",
  );
});

test("SIGTERM cuts chains at their next commit: no step runs twice, none has a crash or an attempt, and another node goes on", async () => {
  const one = await start({ queues: { default: 10 } });
  for (let n = 0; n < 30; n++)
    await insertRow(database, { fsm: "chained", step: "walk", state: { stops: stopsOf(20, { ms: 10 }) } });
  await poke(database);
  await until(async () => (await readAudit(database)).length > 60, { describe: "the chains are under way" });
  expect(await one.stop()).toMatchObject({ code: 0 });
  expect(
    await database.query(
      "SELECT DISTINCT status, crashes, attempt, locked_by FROM gen_durable WHERE status <> 'done'",
    ),
  ).toEqual([{ status: "runnable", crashes: 0, attempt: 0, locked_by: null }]);
  await start();
  await until(
    async () => (await database.query("SELECT 1 FROM gen_durable WHERE status <> 'done'")).length === 0,
  );
  const audit = await readAudit(database);
  expect(new Set(audit.map(({ pid }) => pid)).size).toBe(2);
  expect(audit).toHaveLength(600);
  expect(audit.filter(({ attempt }) => attempt > 0)).toEqual([]);
});

test("INL-14: a chain that has lost its row stops at its first stale commit, and draws no slot after it", async () => {
  const short = {
    leaseTtlMs: 1_500,
    heartbeatIntervalMs: 300,
    nodeTimeoutMs: 60_000,
    reaper: { intervalMs: 150 },
  };
  const one = await start(short);
  const id = await insertWalk(database, [{}, { hold: "h", to: { concurrencyKey: "one" } }, {}, {}]);
  await until(async () => (await readAudit(database, id)).length === 2);
  const two = await start(short);
  one.signal("SIGSTOP");
  await until(async () => (await readAudit(database, id)).at(-1)?.pid === two.pid, {
    describe: "the other node has it",
  });
  await letGo(database, "h");
  await ended(database, id);
  const history = await readHistory(database, id);
  one.signal("SIGCONT");
  expect(await one.stop()).toMatchObject({ code: 0 });
  expect(await readHistory(database, id)).toEqual(history);
  expect((await readAudit(database, id)).map(({ pid }) => pid)).toEqual([
    one.pid,
    one.pid,
    two.pid,
    two.pid,
    two.pid,
  ]);
  expect(await gateErrors(database)).toEqual([]);
});

test("chains whose thread is taken for others go back to their queue untouched, and go on elsewhere", async () => {
  // One thread, blocked by a step: what is committed meanwhile cannot begin there.
  await start({ queues: { default: 10 } });
  const ids = [];
  for (let n = 0; n < 10; n++)
    ids.push(
      await insertRow(database, { fsm: "chained", step: "walk", state: { stops: stopsOf(10, { ms: 5 }) } }),
    );
  const blocker = await insertRow(database, {
    fsm: "chained",
    step: "walk",
    state: { stops: [{ ms: 20 }, { blockMs: 2_000 }] },
  });
  await poke(database);
  for (const id of [...ids, blocker]) await ended(database, id);
  expect(await database.query("SELECT DISTINCT attempt, crashes FROM gen_durable")).toEqual([
    { attempt: 0, crashes: 0 },
  ]);
  for (const id of ids) {
    expect(await readAudit(database, id)).toHaveLength(10);
    expect(await readRow(database, id)).toMatchObject({ visit: 11 });
  }
});
