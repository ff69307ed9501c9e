// Real nodes that are killed, stopped and interrupted.

import { afterEach, beforeAll, expect, test } from "@jest/globals";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { type NodeProcess, startNode } from "../support/node.js";
import { countStatuses, insertRow, insertRows, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

const database = await createDatabase();
const nodes: NodeProcess[] = [];

/** A lease, and a silence that means death, short enough for a test; sweeps follow each other closely. */
const CONFIG = {
  leaseTtlMs: 2_000,
  heartbeatIntervalMs: 400,
  prefetch: 0,
  nodeTimeoutMs: 6_000,
  reaper: { intervalMs: 150 },
};

async function start(): Promise<NodeProcess> {
  const node = await startNode({ database, fsms: ["basic"], config: CONFIG });
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
  await database.query("TRUNCATE gen_durable, public.test_audit, public.test_control, test_history CASCADE");
});

/** The pid of the process in which the newest run of an instance is. */
async function pidOf(id: number): Promise<number | undefined> {
  return (await readAudit(database, id)).at(-1)?.pid;
}

test("two nodes share one queue, and killing one hands its rows to the other", async () => {
  const [one, two] = await Promise.all([start(), start()]);
  await insertRows(database, 200, { fsm: "sleeper", state: { ms: 20 } });
  await until(async () => (await countStatuses(database)).done === 200, {
    describe: "200 sleepers are done",
  });
  const audit = await readAudit(database);
  expect(new Set(audit.map((entry) => entry.pid))).toEqual(new Set([one.pid, two.pid]));
  expect(audit).toHaveLength(200);

  // Five slots each: both are full.
  await insertRows(database, 10, { fsm: "hold", state: { name: "go" } });
  await until(async () => (await readAudit(database)).length === 210, { describe: "10 steps have begun" });
  const { node: id } = await one.logged("the node is running");
  await one.kill();
  await until(
    async () =>
      (await database.query("SELECT 1 FROM gen_durable WHERE starts_with(locked_by, $1)", [`${id}/`]))
        .length === 0,
    { timeoutMs: 40_000, describe: "the dead node owns nothing any more" },
  );
  await letGo(database, "go");
  await until(async () => (await countStatuses(database)).done === 210, { describe: "all are done" });
  // Nobody knows which of the dead node's rows had begun: they have an attempt more, and no crash.
  expect(
    await database.query(
      "SELECT attempt, crashes, count(*) AS n FROM gen_durable WHERE fsm = 'hold' GROUP BY 1, 2 ORDER BY 1",
    ),
  ).toEqual([
    { attempt: 0, crashes: 0, n: 5 },
    { attempt: 1, crashes: 0, n: 5 },
  ]);
}, 120_000);

test("a node of another machine that falls silent is dead after nodeTimeoutMs, not after its leases", async () => {
  const one = await startNode({ database, fsms: ["basic"], config: { ...CONFIG, leaseTtlMs: 60_000 } });
  nodes.push(one);
  const id = await insertRow(database, { fsm: "hold", state: { name: "go" } });
  await until(async () => (await readAudit(database, id)).length === 1, { describe: "the step has begun" });
  await database.query("UPDATE nodes SET hostname = 'elsewhere', boot_id = 'elsewhere'");
  const two = await startNode({ database, fsms: ["basic"], config: { ...CONFIG, leaseTtlMs: 60_000 } });
  nodes.push(two);
  await one.kill();
  await until(async () => (await pidOf(id)) === two.pid, {
    timeoutMs: 40_000,
    describe: "the other node runs it",
  });
  await letGo(database, "go");
  await until(async () => (await readRow(database, id)).status === "done");
  expect(await readRow(database, id)).toMatchObject({ crashes: 0, attempt: 1 });
}, 120_000);

test("SIGSTOP for longer than the lease, then SIGCONT: the late outcome is stale and nothing goes backwards", async () => {
  const one = await start();
  const id = await insertRow(database, { fsm: "hold", state: { name: "go", thenNext: true } });
  await until(async () => (await readAudit(database, id)).length === 1, { describe: "the step has begun" });
  const two = await start();
  one.signal("SIGSTOP");
  await until(async () => (await pidOf(id)) === two.pid, {
    timeoutMs: 40_000,
    describe: "the other node runs it",
  });
  await letGo(database, "go");
  await until(async () => (await readRow(database, id)).status === "done", { describe: "it is done" });
  const before = await readHistory(database, id);
  one.signal("SIGCONT");
  const exit = await one.stop();
  expect({ ...exit, stderr: one.stderr }).toMatchObject({ code: 0 });
  // The stopped node's step came to its end, and changed nothing.
  expect(await readHistory(database, id)).toEqual(before);
  expect((await readAudit(database, id)).map((entry) => entry.pid)).toEqual([one.pid, two.pid, two.pid]);
}, 120_000);
