// Leases, drains, sweeps and once-runs of real nodes.
import { beforeEach, expect, test } from "@jest/globals";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { startNode } from "../support/node.js";
import { countStatuses, insertExecuting, insertRow, insertRows, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

const database = await createDatabase();
await createAudit(database);

beforeEach(() =>
  database.query("TRUNCATE gen_durable, nodes, public.test_audit, public.test_control CASCADE"),
);

test("REAP-02, REC-05: a step longer than its lease keeps it; without garbage collection its row stays", async () => {
  const node = await startNode({
    database,
    config: { leaseTtlMs: 400, heartbeatIntervalMs: 100, gc: false },
  });
  const id = await insertRow(database, { fsm: "sleeper", state: { ms: 900 } });
  await until(async () => (await readRow(database, id)).status === "done");
  expect(await readAudit(database, id)).toHaveLength(1);
  expect(await readRow(database, id)).toMatchObject({ attempt: 0, reaps: 0 });
  await node.logged("garbage collection is off");
  expect(await node.stop()).toEqual({ code: 0, signal: null });
  expect(await readRow(database, id)).toMatchObject({ status: "done" });
});

test("REAP-10, PICK-07: a drain lets what runs end and gives back what has not begun, uncharged", async () => {
  const node = await startNode({
    database,
    config: { queues: { default: 1 }, prefetch: 5, leaseTtlMs: 60_000, heartbeatIntervalMs: 20_000 },
  });
  const ids = await insertRows(database, 4, { fsm: "hold", state: { name: "go" } });
  await until(async () => (await countStatuses(database)).executing === 4);
  await until(async () => (await readAudit(database)).length === 1);
  node.signal("SIGTERM");
  await until(async () => (await countStatuses(database)).runnable === 3);
  await letGo(database, "go");
  expect(await node.exited).toEqual({ code: 0, signal: null });
  expect(await countStatuses(database)).toEqual({ runnable: 3, done: 1 });
  for (const id of ids)
    expect(await readRow(database, id)).toMatchObject({ attempt: 0, reaps: 0, crashes: 0, locked_by: null });
  expect(await database.query("SELECT FROM nodes")).toEqual([]);
});

test("REC-04: with no retention a finished row is gone soon after", async () => {
  const node = await startNode({
    database,
    config: { gc: { intervalMs: 30, retentionMs: 0 } },
  });
  await insertRows(database, 3);
  await until(async () => (await readAudit(database)).length === 3);
  await until(async () => Object.keys(await countStatuses(database)).length === 0);
  await node.stop();
});

test("PICK-13: a node runs what it knows, leaves the rest untouched, and --once ends it when only that is left", async () => {
  const unknown = await insertRow(database, { fsm: "nobody knows", eligibleInMs: -60_000 });
  const tomorrow = await insertRow(database, { eligibleInMs: 86_400_000 });
  const soon = await insertRow(database, { eligibleInMs: 700 });
  const parked = await insertRow(database, {
    fsm: "awaiter",
    step: "woken",
    status: "awaiting_signal",
    awaits: ["go"],
  });
  const dead = await insertExecuting(database, "a node long gone/1", { leaseInMs: -60_000 });
  const node = await startNode({ database, flags: ["--once"] });
  expect(await node.exited).toEqual({ code: 0, signal: null });
  expect(await readRow(database, soon)).toMatchObject({ status: "done" });
  expect(await readRow(database, dead)).toMatchObject({ status: "done", attempt: 1 });
  for (const id of [unknown, tomorrow])
    expect(await readRow(database, id)).toMatchObject({ status: "runnable", attempt: 0, last_error: null });
  expect(await readRow(database, parked)).toMatchObject({ status: "awaiting_signal" });
});
