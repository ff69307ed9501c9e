// The reaper's statements: what goes back, with what charge, and what is left alone.
import { beforeEach, expect, test } from "@jest/globals";
import { wakeOrphanedParents } from "#coordinator/orphans.js";
import { reapRows } from "#coordinator/reap.js";
import { Statements } from "#core/database/statements.js";
import { createDatabase } from "../support/database.js";
import { insertExecuting, insertRow, readRow } from "../support/rows.js";

const database = await createDatabase();
const connection = await database.connection();
const statements = new Statements("gen_durable");

beforeEach(() => database.query("TRUNCATE gen_durable, signals, gen_durable_buckets, fsms, nodes"));

const reap = (deadNodes: string[] | null = null) =>
  reapRows(connection, statements, { deadNodes, leaseTtlMs: 60_000 });

test("REAP-01: an expired row is runnable again with an attempt and a reap more; a live lease is left alone", async () => {
  const expired = await insertExecuting(database, "a/1", { leaseInMs: -10, attempt: 1, awaits: ["go"] });
  const live = await insertExecuting(database, "a/1");
  expect(await reap()).toEqual({ count: 1, cancelled: 0, queues: ["default"] });
  expect(await readRow(database, expired)).toMatchObject({
    status: "runnable",
    attempt: 2,
    reaps: 1,
    crashes: 0,
    locked_by: null,
    lease_expires_at: null,
    awaits: ["go"],
  });
  expect(await readRow(database, live)).toMatchObject({ status: "executing", locked_by: "a/1", attempt: 0 });
});

test("invariant 12: a crash is charged only to a row that is on record as begun, and the record goes", async () => {
  const begun = await insertExecuting(database, "a/1", { leaseInMs: -10, startedInMs: -50, crashes: 2 });
  await reap();
  expect(await readRow(database, begun)).toMatchObject({ crashes: 3, reaps: 1, started_at: null });
});

test("REAP-05, REAP-07: a dead node's rows return whatever their leases, and nobody else's", async () => {
  const dead = await insertExecuting(database, "n%/1");
  const others = [await insertExecuting(database, "nx/1"), await insertExecuting(database, "n%%/1")];
  expect((await reap(["n%"])).count).toBe(1);
  expect(await readRow(database, dead)).toMatchObject({ status: "runnable", attempt: 1 });
  for (const id of others) expect(await readRow(database, id)).toMatchObject({ status: "executing" });
});

test("REAP-08: a row that another session has locked is skipped, the rest return", async () => {
  const locked = await insertExecuting(database, "a/1", { leaseInMs: -10 });
  const free = await insertExecuting(database, "a/1", { leaseInMs: -10 });
  const other = await database.session();
  await other.query("BEGIN");
  await other.query("SELECT FROM gen_durable WHERE id = $1 FOR NO KEY UPDATE", [locked]);
  expect((await reap()).count).toBe(1);
  expect(await readRow(database, free)).toMatchObject({ status: "runnable" });
  await other.query("ROLLBACK");
  expect((await reap()).count).toBe(1);
  expect(await readRow(database, locked)).toMatchObject({ status: "runnable" });
});

test("more rows than one batch, in one call; two reapers at once return each row once", async () => {
  await database.query(`INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at)
    SELECT 'plain', 'start', 'executing', 'a/1', now() - interval '1 s' FROM generate_series(1, 1200)`);
  const second = await database.connection();
  const [a, b] = await Promise.all([
    reap(),
    reapRows(second, statements, { deadNodes: null, leaseTtlMs: 60_000 }),
  ]);
  expect(a.count + b.count).toBe(1_200);
  expect(await database.one("SELECT min(reaps), max(reaps) FROM gen_durable")).toEqual({ min: 1, max: 1 });
});

test("RP1: gate slots come back with the rows, each to its shard", async () => {
  await database.query(`INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available)
    VALUES ('conc', 'stripe:1', 0, 5, 1), ('conc', 'stripe:1', 1, 5, 0)`);
  for (const shard of [0, 0, 1])
    await insertExecuting(database, "a/1", {
      leaseInMs: -10,
      concurrency_key: "stripe:1",
      concurrency_shard: shard,
    });
  await reap();
  expect(await database.query("SELECT shard, available FROM gen_durable_buckets ORDER BY shard")).toEqual([
    { shard: 0, available: 3 },
    { shard: 1, available: 1 },
  ]);
});

test("RP2: a row whose correlation key is taken meanwhile goes back without its identity, the others with theirs", async () => {
  const scope = ["runnable", "awaiting_signal"] as const;
  const taken = await insertExecuting(database, "a/1", {
    leaseInMs: -10,
    correlation_key: "k",
    correlation_scope: [...scope],
  });
  const occupant = await insertRow(database, { correlation_key: "k", correlation_scope: [...scope] });
  const mates = [];
  for (let n = 0; n < 5; n++)
    mates.push(
      await insertExecuting(database, "a/1", {
        leaseInMs: -10,
        correlation_key: `m${n}`,
        correlation_scope: [...scope],
      }),
    );
  expect((await reap()).count).toBe(6);
  expect(await readRow(database, taken)).toMatchObject({ status: "runnable", correlation_guard: null });
  expect(await readRow(database, occupant)).toMatchObject({ correlation_guard: "k" });
  for (const [n, id] of mates.entries())
    expect(await readRow(database, id)).toMatchObject({ status: "runnable", correlation_guard: `m${n}` });
});

test("RP3: the loss of a row whose cancel was requested is the cancellation, and its parent hears of it", async () => {
  const parent = await insertRow(database, { status: "awaiting_children", visit: 2, children_pending: 1 });
  const child = await insertExecuting(database, "a/1", {
    leaseInMs: -10,
    cancel_requested: true,
    cancel_reason: "enough",
    parent_id: parent,
    parent_visit: 2,
  });
  expect(await reap()).toMatchObject({ count: 1, cancelled: 1 });
  const row = await readRow(database, child);
  expect(row).toMatchObject({ status: "failed", locked_by: null });
  expect(row.last_error).toContain("enough");
  expect(await readRow(database, parent)).toMatchObject({ status: "runnable", wake_reason: "children" });
});

test("a parent whose last children were deleted by hand wakes; one that still has a child to wait for does not", async () => {
  const orphan = await insertRow(database, {
    status: "awaiting_children",
    visit: 2,
    children_pending: 2,
    queue: "p",
  });
  await insertRow(database, { status: "done", parent_id: orphan, parent_visit: 2 });
  // A child of an earlier round is nobody to wait for.
  await insertRow(database, { status: "runnable", parent_id: orphan, parent_visit: 1 });
  const waiting = await insertRow(database, { status: "awaiting_children", visit: 2, children_pending: 1 });
  await insertRow(database, { status: "runnable", parent_id: waiting, parent_visit: 2 });
  expect(await wakeOrphanedParents(connection, statements)).toEqual({ queues: ["p"], afterId: 0 });
  expect(await readRow(database, orphan)).toMatchObject({
    status: "runnable",
    wake_reason: "children",
    children_pending: 0,
  });
  expect(await readRow(database, waiting)).toMatchObject({ status: "awaiting_children" });
});
