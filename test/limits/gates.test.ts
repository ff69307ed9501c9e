// Gates: at most so many of a key execute, by counters that nobody can overdraw.
import { beforeEach, expect, test } from "@jest/globals";
import { SlotsGone } from "#coordinator/limiter/limiter.js";
import { reapRows } from "#coordinator/reap.js";
import { releaseClaims } from "#coordinator/release.js";
import { createDatabase } from "../support/database.js";
import { untilBlocked } from "../support/locks.js";
import { awaits, done, next } from "../support/outcomes.js";
import { insertRow, readRow } from "../support/rows.js";
import { configure, gateErrors, limiter, pickRows, readBuckets, settle, statements } from "./rig.js";

const database = await createDatabase();
const connection = await database.connection();

beforeEach(() =>
  database.query("TRUNCATE gen_durable, signals, gen_durable_buckets, gen_durable_bucket_configs"),
);

async function insertKeyed(count: number, key: string, rateLimit: string | null = null, weight = 1) {
  const ids = [];
  for (let i = 0; i < count; i++)
    ids.push(await insertRow(database, { concurrency_key: key, rate_limit: rateLimit, weight }));
  return ids;
}

test("GATE-01, GATE-02: a cold gate is made by the pick that uses it, already debited", async () => {
  await configure(database, { stripe: { limit: 2 } });
  const rows = await insertKeyed(4, "stripe");
  expect(await readBuckets(database)).toEqual([]);
  const first = await pickRows(connection);
  expect(first.rows.map(({ id }) => id)).toEqual(rows.slice(0, 2));
  expect(await readBuckets(database)).toMatchObject([
    { kind: "conc", key: "stripe", capacity: 2, available: 0 },
  ]);
  expect(first.denials).toMatchObject([{ kind: "conc", key: "stripe", why: "full", wanted: 4, granted: 2 }]);
  expect(await readRow(database, rows[0] ?? 0)).toMatchObject({ concurrency_shard: 0 });
  expect(await readRow(database, rows[2] ?? 0)).toMatchObject({ status: "runnable", attempt: 0 });
  expect((await pickRows(connection)).rows).toEqual([]);
  await settle(connection, first.rows.slice(0, 1), done());
  expect(await readBuckets(database)).toMatchObject([{ available: 1 }]);
  expect((await pickRows(connection)).rows).toHaveLength(1);
  expect(await gateErrors(database)).toEqual([]);
});

test("GATE-04: a lone picker gets the whole limit, whatever the shards", async () => {
  await configure(database, { stripe: { limit: 7, shards: 3 } });
  await insertKeyed(9, "stripe");
  expect((await pickRows(connection)).rows).toHaveLength(7);
  expect(await readBuckets(database)).toMatchObject([
    { shard: 0, capacity: 3, available: 0 },
    { shard: 1, capacity: 2, available: 0 },
    { shard: 2, capacity: 2, available: 0 },
  ]);
  expect(await gateErrors(database)).toEqual([]);
});

test("GATE-05: a shard that somebody has locked is not waited for", async () => {
  await configure(database, { stripe: { limit: 4, shards: 2 } });
  await insertKeyed(4, "stripe");
  await settle(connection, (await pickRows(connection)).rows, next("start"));
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM gen_durable_buckets WHERE shard = 0 FOR UPDATE");
  const claim = await pickRows(connection);
  expect(claim.rows).toHaveLength(2);
  expect(claim.denials).toMatchObject([{ why: "busy", granted: 2 }]);
  expect(
    await database.query("SELECT DISTINCT concurrency_shard FROM gen_durable WHERE status = 'executing'"),
  ).toEqual([{ concurrency_shard: 1 }]);
  await holder.query("ROLLBACK");
  expect((await pickRows(connection)).rows).toHaveLength(2);
});

test("GATE-07: an unconfigured key beside it still runs one at a time; partitions have gates of their own", async () => {
  await configure(database, { stripe: { limit: 2 } });
  await insertKeyed(3, "stripe:1");
  await insertKeyed(3, "stripe:2");
  await insertKeyed(3, "solo");
  await pickRows(connection);
  expect(
    await database.query(
      "SELECT concurrency_key AS key, count(*) AS n FROM gen_durable WHERE status = 'executing' GROUP BY 1 ORDER BY 1",
    ),
  ).toEqual([
    { key: "solo", n: 1 },
    { key: "stripe:1", n: 2 },
    { key: "stripe:2", n: 2 },
  ]);
});

test("GATE-08: a row that its rate denies takes no slot, and one that its gate denies no token", async () => {
  await configure(database, { stripe: { limit: 5 }, api: { limit: 3, rate: 0 } });
  await insertKeyed(3, "stripe", "api", 2);
  expect((await pickRows(connection)).rows).toHaveLength(1);
  expect(await readBuckets(database)).toMatchObject([
    { kind: "conc", available: 4 },
    { kind: "rate", available: 1 },
  ]);
  await database.query("TRUNCATE gen_durable, signals, gen_durable_buckets");
  await configure(database, { stripe: { limit: 1 }, api: { limit: 3, rate: 0 } });
  await insertKeyed(3, "stripe", "api");
  expect((await pickRows(connection)).rows).toHaveLength(1);
  expect(await readBuckets(database)).toMatchObject([
    { kind: "conc", available: 0 },
    { kind: "rate", available: 2 },
  ]);
});

test("GATE-10, GATE-11: null releases, a value switches, absent keeps, a park holds no slot", async () => {
  await configure(database, { a: { limit: 5 }, b: { limit: 5 } });
  const expectAvailable = async (available: Record<string, number>) => {
    const rows = await readBuckets(database);
    expect(Object.fromEntries(rows.map((row) => [row.key, row.available]))).toMatchObject(available);
    expect(await gateErrors(database)).toEqual([]);
  };
  const [id = 0] = await insertKeyed(1, "a");
  const pickOne = async () => (await pickRows(connection)).rows;
  let rows = await pickOne();
  await expectAvailable({ a: 4 });
  await settle(connection, rows, next("start"));
  await expectAvailable({ a: 5 });
  rows = await pickOne();
  await settle(connection, rows, next("start", { key: "b" }));
  await expectAvailable({ a: 5 });
  rows = await pickOne();
  await expectAvailable({ a: 5, b: 4 });
  await settle(connection, rows, awaits(["go"]));
  await expectAvailable({ a: 5, b: 5 });
  await database.query("UPDATE gen_durable SET status = 'runnable'");
  rows = await pickOne();
  await settle(connection, rows, next("start", { key: null }));
  rows = await pickOne();
  expect(await readRow(database, id)).toMatchObject({ concurrency_key: null, concurrency_shard: null });
  await expectAvailable({ a: 5, b: 5 });
});

test("GATE-13: a counter can be neither negative nor above its capacity", async () => {
  await configure(database, { a: { limit: 2 } });
  await insertKeyed(1, "a");
  await pickRows(connection);
  for (const available of [-1, 3])
    await expect(
      database.query("UPDATE gen_durable_buckets SET available = $1", [available]),
    ).rejects.toMatchObject({ code: "23514", constraint: "gen_durable_buckets_available" });
});

test("GATE-14: the reaper credits each slot in the transaction that returns the row; so does a release", async () => {
  await configure(database, { a: { limit: 4, shards: 2 } });
  await insertKeyed(4, "a");
  await pickRows(connection, { claim: "dead/1" });
  expect(await readBuckets(database)).toMatchObject([{ available: 0 }, { available: 0 }]);
  expect(await reapRows(connection, statements, { deadNodes: ["dead"], leaseTtlMs: 1_000 })).toMatchObject({
    count: 4,
  });
  expect(await readBuckets(database)).toMatchObject([{ available: 2 }, { available: 2 }]);
  await pickRows(connection, { claim: "lost/1" });
  expect(await releaseClaims(connection, statements, { claims: ["lost/1"], prefix: null })).toEqual([
    "default",
  ]);
  expect(await readBuckets(database)).toMatchObject([{ available: 2 }, { available: 2 }]);
  expect(await gateErrors(database)).toEqual([]);
});

test("GATE-16: a configured name takes every key with that prefix", async () => {
  await configure(database, { order: { limit: 5 } });
  await insertKeyed(6, "order:42");
  expect((await pickRows(connection)).rows).toHaveLength(5);
});

test("GATE-20: one credit admits exactly one", async () => {
  await configure(database, { a: { limit: 2 } });
  const admit = async (...ids: number[]) => {
    await connection.command("BEGIN");
    const { admitted } = await limiter.admit(
      connection,
      ids.map((id) => ({ id, gate: "a", rate: null, weight: 1 })),
    );
    await connection.command("COMMIT");
    return admitted.map(({ id }) => id);
  };
  expect(await admit(1, 2, 3)).toEqual([1, 2]);
  expect(await admit(3)).toEqual([]);
  await connection.command("BEGIN");
  await limiter.credit(connection, [{ key: "a", shard: 0 }]);
  await connection.command("COMMIT");
  expect(await admit(3, 4)).toEqual([3]);
});

/** An admission of so many rows of "a" that leaves its counters unlocked where it may. */
async function promise(slots: number) {
  await connection.command("BEGIN");
  return limiter.admit(
    connection,
    Array.from({ length: slots }, (_, id) => ({ id: id + 1, gate: "a", rate: null, weight: 1 })),
    { mayOwe: true },
  );
}

/** A gate "a" whose counters exist, full. */
async function warm(limit: number, shards = 1) {
  await configure(database, { a: { limit, shards } });
  await insertKeyed(limit, "a");
  await settle(connection, (await pickRows(connection)).rows, done());
}

test("LI4: with slots in plenty no counter is held before the end of the pick; a pick draws on one shard as long as that lasts", async () => {
  await warm(100, 2);
  const { admitted, denials, owed } = await promise(10);
  expect([admitted.length, denials.length]).toEqual([10, 0]);
  expect(owed).toMatchObject([{ key: "a", slots: 10, capacity: 50 }]);
  await database.query("SELECT FROM gen_durable_buckets FOR UPDATE NOWAIT");
  await limiter.debit(connection, owed);
  await expect(database.query("SELECT FROM gen_durable_buckets FOR UPDATE NOWAIT")).rejects.toMatchObject({
    code: "55P03",
  });
  await connection.command("COMMIT");
  expect((await readBuckets(database)).map(({ available }) => available).sort()).toEqual([40, 50]);
  // With less than twice what is wanted, the counters are locked at once.
  expect((await promise(46)).owed).toEqual([]);
  await connection.command("ROLLBACK");
});

test.each([
  ["taken by another pick", "UPDATE gen_durable_buckets SET available = 3"],
  ["of another limit by now", "UPDATE gen_durable_buckets SET capacity = capacity - 1, available = 9"],
  ["owed", "UPDATE gen_durable_buckets SET debt = 1"],
  ["swept", "DELETE FROM gen_durable_buckets"],
])("LI4: a pick whose promised slots are %s does not commit", async (_, change) => {
  await warm(10);
  const { owed } = await promise(4);
  expect(owed).toHaveLength(1);
  await database.query(change);
  await expect(limiter.debit(connection, owed)).rejects.toThrow(SlotsGone);
  await connection.command("ROLLBACK");
});

test("LI4: a pick waits for a commit that credits its counter, and takes what it has promised", async () => {
  await warm(10);
  await insertKeyed(4, "a");
  const flusher = await database.session();
  await flusher.query("BEGIN");
  await flusher.query("SELECT FROM gen_durable_buckets FOR UPDATE");
  const picking = pickRows(connection);
  await untilBlocked(database);
  await flusher.query("COMMIT");
  expect((await picking).rows).toHaveLength(4);
  expect(await readBuckets(database)).toMatchObject([{ available: 6 }]);
});

test("K1-16, REC-14: a changed limit reclassifies nobody; one that no node states any more stays in force", async () => {
  await configure(database, { a: { limit: 3 } });
  await insertKeyed(8, "a");
  expect((await pickRows(connection)).rows).toHaveLength(3);
  await configure(database, { a: { limit: 5 }, b: { limit: 1 } });
  expect((await pickRows(connection)).rows).toHaveLength(2);
  expect(
    await database.query(
      "SELECT DISTINCT concurrency_shard AS shard FROM gen_durable WHERE status = 'executing'",
    ),
  ).toEqual([{ shard: 0 }]);
  // A node that boots writes the names of its own configuration, and no others.
  await configure(database, { c: { limit: 1 } });
  expect(await database.query("SELECT name FROM gen_durable_bucket_configs ORDER BY name")).toEqual([
    { name: "a" },
    { name: "b" },
    { name: "c" },
  ]);
  expect((await pickRows(connection)).rows).toEqual([]);
});

test("a limit that is lowered while its slots are taken is paid off before anything is admitted; raised, it admits at once", async () => {
  await configure(database, { a: { limit: 4, shards: 2 } });
  await insertKeyed(12, "a");
  const first = await pickRows(connection);
  expect(first.rows).toHaveLength(4);
  await configure(database, { a: { limit: 2, shards: 2 } });
  expect((await pickRows(connection)).rows).toEqual([]);
  expect(await readBuckets(database)).toMatchObject([
    { capacity: 1, available: 0, debt: 1 },
    { capacity: 1, available: 0, debt: 1 },
  ]);
  await settle(connection, first.rows.slice(0, 2), done());
  expect((await pickRows(connection)).rows).toEqual([]);
  await settle(connection, first.rows.slice(2, 3), done());
  expect((await pickRows(connection)).rows).toHaveLength(1);
  await configure(database, { a: { limit: 6, shards: 2 } });
  expect((await pickRows(connection)).rows).toHaveLength(4);
  expect(await gateErrors(database)).toEqual([]);
});

test("shards that are added while slots are taken admit no more than the limit", async () => {
  await configure(database, { a: { limit: 4, shards: 2 } });
  await insertKeyed(8, "a");
  const first = await pickRows(connection);
  await configure(database, { a: { limit: 4, shards: 4 } });
  expect((await pickRows(connection)).rows).toEqual([]);
  await settle(connection, first.rows.slice(0, 3), done());
  expect((await pickRows(connection)).rows).toHaveLength(3);
  await configure(database, { a: { limit: 4, shards: 1 } });
  expect((await pickRows(connection)).rows).toEqual([]);
  expect(await gateErrors(database)).toEqual([]);
});

test("a changed limit is not settled while somebody has a part of it locked", async () => {
  await configure(database, { a: { limit: 4, shards: 2 } });
  await insertKeyed(8, "a");
  const { rows } = await pickRows(connection);
  await settle(connection, rows.slice(0, 2), done());
  await configure(database, { a: { limit: 6, shards: 2 } });
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM gen_durable_buckets WHERE shard = 0 FOR UPDATE");
  expect(await pickRows(connection)).toMatchObject({ rows: [], denials: [{ why: "busy" }] });
  await holder.query("ROLLBACK");
  expect((await pickRows(connection)).rows).toHaveLength(4);
});

test("K1-16: a name that is added gates new claims beside the one row of the key that runs; removed, keys are K = 1 again", async () => {
  await insertKeyed(6, "order:1");
  expect((await pickRows(connection)).rows).toHaveLength(1);
  await configure(database, { order: { limit: 2 } });
  const gated = await pickRows(connection);
  expect(gated.rows).toHaveLength(2);
  await database.query("DELETE FROM gen_durable_bucket_configs");
  expect((await pickRows(connection)).rows).toEqual([]);
  await settle(connection, gated.rows, done());
  expect((await pickRows(connection)).rows).toEqual([]);
});
