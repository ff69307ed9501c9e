// The collector's part in limits: gates are reconciled with what executes, idle counters go.
import { beforeEach, expect, test } from "@jest/globals";
import { isRace } from "#coordinator/claimLimited.js";
import { reconcileGates, sweepRates } from "#coordinator/limiter/sweep.js";
import { createDatabase } from "../support/database.js";
import { done } from "../support/outcomes.js";
import { insertRow } from "../support/rows.js";
import { configure, gateErrors, pickRows, readBuckets, settle, statements } from "./rig.js";

const database = await createDatabase();
const connection = await database.connection();

beforeEach(() =>
  database.query("TRUNCATE gen_durable, signals, gen_durable_buckets, gen_durable_bucket_configs"),
);

async function claimOf(key: string, count: number) {
  for (let i = 0; i < count; i++) await insertRow(database, { concurrency_key: key });
  return (await pickRows(connection)).rows;
}

test("REC-10, GATE-19: a gate that is full and idle goes, and so does one that nobody has configured; the next pick makes it anew", async () => {
  await configure(database, { a: { limit: 2 }, gone: { limit: 2 } });
  await settle(connection, [...(await claimOf("a", 2)), ...(await claimOf("gone", 1))], done());
  await database.query("DELETE FROM gen_durable_bucket_configs WHERE name = 'gone'");
  expect(await reconcileGates(connection, statements)).toEqual({ gates: 2, healed: 0, added: 0 });
  expect(await readBuckets(database)).toEqual([]);
  expect(await claimOf("a", 3)).toHaveLength(2);
});

test("REC-11: shards raised from 2 to 4 while rows execute: all of them exist, and none admits beyond the limit", async () => {
  await configure(database, { a: { limit: 4, shards: 2 } });
  await claimOf("a", 1);
  await configure(database, { a: { limit: 4, shards: 4 } });
  await reconcileGates(connection, statements);
  const buckets = await readBuckets(database);
  expect(buckets.map(({ shard, capacity }) => [shard, capacity])).toEqual([
    [0, 1],
    [1, 1],
    [2, 1],
    [3, 1],
  ]);
  expect(await gateErrors(database)).toEqual([]);
  expect(await claimOf("a", 5)).toHaveLength(3);
});

test("what was leaked or credited by hand is set right by the next sweep", async () => {
  await configure(database, { a: { limit: 4 } });
  const rows = await claimOf("a", 3);
  await database.query("DELETE FROM gen_durable WHERE id = $1", [rows[0]?.id]);
  expect(await reconcileGates(connection, statements)).toEqual({ gates: 0, healed: 1, added: 0 });
  expect(await readBuckets(database)).toMatchObject([{ capacity: 4, available: 2, debt: 0 }]);
  await database.query("UPDATE gen_durable_buckets SET available = 4");
  await configure(database, { a: { limit: 1 } });
  await reconcileGates(connection, statements);
  expect(await readBuckets(database)).toMatchObject([{ capacity: 1, available: 0, debt: 1 }]);
  expect(await gateErrors(database)).toEqual([]);
});

test("REC-13: a counter that somebody has locked keeps all counters of its key", async () => {
  await configure(database, { a: { limit: 4, shards: 2 }, b: { limit: 1 } });
  await settle(connection, [...(await claimOf("a", 4)), ...(await claimOf("b", 1))], done());
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM gen_durable_buckets WHERE key = 'a' AND shard = 1 FOR UPDATE");
  expect(await reconcileGates(connection, statements)).toMatchObject({ gates: 1 });
  expect((await readBuckets(database)).map(({ key }) => key)).toEqual(["a", "a"]);
  await holder.query("ROLLBACK");
  expect(await reconcileGates(connection, statements)).toMatchObject({ gates: 1 });
});

test("a reconcile counts what was committed before it locked: a credit that waits for it is not lost", async () => {
  await configure(database, { a: { limit: 2 } });
  const rows = await claimOf("a", 2);
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM gen_durable_buckets FOR UPDATE");
  const settling = settle(connection, rows.slice(0, 1), done());
  await holder.query("COMMIT");
  await settling;
  const other = await database.connection();
  await Promise.all([reconcileGates(other, statements), settle(connection, rows.slice(1), done())]);
  await reconcileGates(other, statements);
  expect(await readBuckets(database)).toEqual([]);
  expect(await gateErrors(database)).toEqual([]);
});

test("REC-07, REC-08: of rate counters those go that are full again or not configured; all shards of a key or none", async () => {
  await configure(database, {
    full: { limit: 2, rate: 1, shards: 2 },
    gone: { limit: 2, rate: 1 },
    used: { limit: 2, rate: 0.001 },
    never: { limit: 2, rate: 0 },
  });
  for (const name of ["full", "gone", "used", "never"]) await insertRow(database, { rate_limit: name });
  await pickRows(connection);
  await database.query("DELETE FROM gen_durable_bucket_configs WHERE name = 'gone'");
  await database.query("UPDATE gen_durable_buckets SET last_refill = now() - interval '10 seconds'");
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM gen_durable_buckets WHERE key = 'full' AND shard = 1 FOR UPDATE");
  expect(await sweepRates(connection, statements)).toBe(1);
  await holder.query("ROLLBACK");
  expect(await sweepRates(connection, statements)).toBe(2);
  expect((await readBuckets(database)).map(({ key }) => key)).toEqual(["never", "used"]);
});

test("REC-13: several nodes sweep at once, beside picks and commits: nothing goes twice, nothing deadlocks, every counter is right", async () => {
  await configure(database, {
    gate: { limit: 3, shards: 2 },
    wide: { limit: 200, shards: 2 },
    rate: { limit: 50, rate: 1_000, shards: 2 },
  });
  await database.query(
    `INSERT INTO gen_durable (fsm, step, concurrency_key, rate_limit)
     SELECT 'plain', 'start', (ARRAY['gate:' || n % 5, 'wide:' || n % 3])[1 + n % 2], CASE WHEN n % 3 = 0 THEN 'rate:' || n % 4 END
       FROM generate_series(1, 400) n`,
  );
  const pickers = await Promise.all([1, 2, 3].map(() => database.connection()));
  const sweepers = await Promise.all([1, 2, 3].map(() => database.connection()));
  let left = 400;
  const pick = async (picker: typeof connection) => {
    while (left > 0) {
      // One race too many for a cold counter, and a pick gives up until the next one, as a picker's does.
      const { rows } = await pickRows(picker, { rowsMax: 10 }).catch((error: unknown) => {
        if (isRace(error)) return { rows: [] };
        throw error;
      });
      await settle(picker, rows, done());
      left -= rows.length;
    }
  };
  const sweep = async (sweeper: typeof connection) => {
    while (left > 0) {
      await reconcileGates(sweeper, statements);
      await sweepRates(sweeper, statements);
    }
  };
  await Promise.all([...pickers.map(pick), ...sweepers.map(sweep)]);
  expect(left).toBe(0);
  expect(await gateErrors(database)).toEqual([]);
  const swept = await Promise.all(sweepers.map((sweeper) => reconcileGates(sweeper, statements)));
  expect(swept.map(({ healed, added }) => healed + added)).toEqual([0, 0, 0]);
  await reconcileGates(connection, statements);
  expect((await readBuckets(database)).filter(({ kind }) => kind === "conc")).toEqual([]);
  expect(database.log().filter((line) => line.includes("deadlock"))).toEqual([]);
});
