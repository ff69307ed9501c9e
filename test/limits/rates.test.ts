// Rates: tokens by the database's clock, taken at the claim, never refunded.
import { beforeEach, expect, test } from "@jest/globals";
import { createClient } from "gen-durable";
import { createDatabase } from "../support/database.js";
import { countBlocked } from "../support/locks.js";
import { children, done, next, retry } from "../support/outcomes.js";
import { plain } from "../support/probes/basic.js";
import { insertRow, readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { configure, pickRows, readBuckets, settle } from "./rig.js";

const database = await createDatabase();
const connection = await database.connection();

beforeEach(() =>
  database.query("TRUNCATE gen_durable, signals, gen_durable_buckets, gen_durable_bucket_configs"),
);

async function insertRated(count: number, rateLimit: string, weight = 1): Promise<number[]> {
  const ids = [];
  for (let i = 0; i < count; i++) ids.push(await insertRow(database, { rate_limit: rateLimit, weight }));
  return ids;
}
const ids = ({ rows }: { rows: readonly { id: number }[] }) => rows.map(({ id }) => id);
const passed = (ms: number) =>
  database.query("UPDATE gen_durable_buckets SET last_refill = last_refill - $1 * interval '1 millisecond'", [
    ms,
  ]);

test("RATE-01: a cold bucket of 5 without refill runs five of ten, and is made empty", async () => {
  await configure(database, { api: { limit: 5, rate: 0 } });
  const rows = await insertRated(10, "api");
  expect(ids(await pickRows(connection))).toEqual(rows.slice(0, 5));
  expect(await readBuckets(database)).toMatchObject([{ kind: "rate", capacity: 5, available: 0 }]);
  expect(await pickRows(connection)).toMatchObject({
    rows: [],
    denials: [{ kind: "rate", key: "api", why: "full", refillInMs: null, wanted: 5, granted: 0 }],
  });
});

test("RATE-02: weights count; RATE-10: partitions have budgets of their own", async () => {
  await configure(database, { api: { limit: 5, rate: 0 } });
  await insertRated(4, "api", 2);
  await insertRated(2, "api:7", 4);
  expect((await pickRows(connection)).rows).toHaveLength(3);
  expect(await readBuckets(database)).toMatchObject([
    { key: "api", available: 1 },
    { key: "api:7", available: 1 },
  ]);
});

test("RATE-04: tokens come back with time, up to the burst, and the denial says when", async () => {
  await configure(database, { api: { limit: 2, rate: 1 } });
  const rows = await insertRated(6, "api");
  expect((await pickRows(connection)).rows).toHaveLength(2);
  const { denials } = await pickRows(connection);
  expect(denials[0]?.refillInMs).toBeGreaterThan(500);
  expect(denials[0]?.refillInMs).toBeLessThanOrEqual(1_000);
  await passed(1_000);
  expect(ids(await pickRows(connection))).toEqual([rows[2]]);
  await passed(60_000);
  expect((await pickRows(connection)).rows).toHaveLength(2);
});

test("nobody overtakes a heavy row of its rate", async () => {
  await configure(database, { api: { limit: 5, rate: 1 } });
  await insertRated(1, "api", 4);
  await pickRows(connection);
  const [heavy] = await insertRated(1, "api", 3);
  await insertRated(1, "api", 1);
  expect(ids(await pickRows(connection))).toEqual([]);
  await passed(2_000);
  expect(ids(await pickRows(connection))).toEqual([heavy]);
});

test("RATE-07, RATE-11: a transition's limit is taken by its claim, kept across a retry and cleared by the next transition", async () => {
  await configure(database, { api: { limit: 5, rate: 0 } });
  const id = await insertRow(database);
  await settle(
    connection,
    (await pickRows(connection)).rows,
    next("start", { rateLimit: "api:7", weight: 1 }),
  );
  let { rows } = await pickRows(connection);
  expect(await readBuckets(database)).toMatchObject([{ key: "api:7", available: 4 }]);
  await settle(connection, rows, retry());
  ({ rows } = await pickRows(connection));
  expect(await readBuckets(database)).toMatchObject([{ available: 3 }]);
  await settle(connection, rows, next("start"));
  expect(await readRow(database, id)).toMatchObject({ rate_limit: null, weight: 1 });
  ({ rows } = await pickRows(connection));
  await settle(connection, rows, done());
  expect(await readBuckets(database)).toMatchObject([{ available: 3 }]);
});

test("RATE-13: a weight that a config change has made unfit holds up nobody", async () => {
  await configure(database, { api: { limit: 5, rate: 0 } });
  await insertRated(2, "api", 4);
  await configure(database, { api: { limit: 3, rate: 0 } });
  const behind = await insertRated(4, "api");
  const claim = await pickRows(connection);
  expect(ids(claim)).toEqual(behind.slice(0, 3));
});

test("RATE-14: rows of a limit that nobody has configured wait, are told of, and hold up nobody", async () => {
  await insertRated(3, "typo:1");
  const free = await insertRow(database);
  const claim = await pickRows(connection);
  expect(ids(claim)).toEqual([free]);
  expect(claim.unknown).toEqual([{ key: "typo:1", fsm: "plain", step: "start" }]);
});

test("RATE-16: shards split rate and burst; a lone picker sees all of it and debits in proportion", async () => {
  await configure(database, { api: { limit: 10, rate: 0, shards: 4 } });
  await insertRated(4, "api");
  expect((await pickRows(connection)).rows).toHaveLength(4);
  expect((await readBuckets(database)).map(({ capacity, available }) => [capacity, available])).toEqual(
    Array(4).fill([2.5, 1.5]),
  );
  await insertRated(10, "api");
  expect((await pickRows(connection)).rows).toHaveLength(6);
  for (const { available } of await readBuckets(database)) expect(available).toBeCloseTo(0);
});

test("a burst that is lowered is cut at once; raised, it fills by its rate", async () => {
  await configure(database, { api: { limit: 10, rate: 0 } });
  await insertRated(30, "api");
  expect((await pickRows(connection, { rowsMax: 2 })).rows).toHaveLength(2);
  await configure(database, { api: { limit: 3, rate: 0 } });
  expect((await pickRows(connection)).rows).toHaveLength(3);
  await configure(database, { api: { limit: 6, rate: 1 } });
  expect((await pickRows(connection)).rows).toHaveLength(0);
  await passed(60_000);
  expect((await pickRows(connection)).rows).toHaveLength(6);
});

test("RATE-17: two picks that make one cold counter: the primary key decides, the loser sees the winner's", async () => {
  await configure(database, { api: { limit: 5, rate: 0 } });
  await insertRated(10, "api");
  const winner = await database.session();
  await winner.query("BEGIN");
  await winner.query(
    "INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available, last_refill) VALUES ('rate', 'api', 0, 5, 2, now())",
  );
  let contended = 0;
  const picking = pickRows(connection, {}, () => contended++);
  await until(async () => (await countBlocked(database)) > 0 || contended > 0, { everyMs: 1 });
  await winner.query("COMMIT");
  expect((await picking).rows).toHaveLength(2);
  expect(contended).toBeGreaterThanOrEqual(1);
  expect(await readBuckets(database)).toMatchObject([{ available: 0 }]);
});

test("RATE-17, RATE-19: eight pickers over a hundred cold keys grant exactly five of each, without a deadlock", async () => {
  await configure(database, { api: { limit: 5, rate: 0, shards: 1 } });
  await database.query(
    `INSERT INTO gen_durable (fsm, step, rate_limit) SELECT 'plain', 'start', 'api:' || k
     FROM (SELECT k, n FROM generate_series(1, 100) k, generate_series(1, 10) n ORDER BY n, random()) s`,
  );
  const pickers = await Promise.all(Array.from({ length: 8 }, () => database.connection()));
  await Promise.all(
    pickers.map(async (picker) => {
      for (let empty = 0; empty < 3; ) {
        const claim = await pickRows(picker, { rowsMax: 40 });
        const isBusy = claim.denials.some(({ why }) => why === "busy");
        empty = claim.rows.length > 0 || isBusy ? 0 : empty + 1;
      }
    }),
  );
  expect(
    await database.query(
      "SELECT count(*) AS n, min(n) AS least, max(n) AS most FROM (SELECT rate_limit, count(*) AS n FROM gen_durable WHERE status = 'executing' GROUP BY 1) s",
    ),
  ).toEqual([{ n: 100, least: 5, most: 5 }]);
  expect((await readBuckets(database)).filter(({ available }) => available !== 0)).toEqual([]);
  expect(database.log().filter((line) => line.includes("deadlock"))).toEqual([]);
});

test("INS-22, RATE-05, RATE-08: an insert names the limit of the first step and makes no counter; of three rows and a burst of two, two run", async () => {
  await configure(database, { api: { limit: 2, rate: 0 }, gate: { limit: 5 } });
  const client = createClient({ pool: database.pool });
  await client.insertMany(
    plain,
    Array.from({ length: 3 }, () => ({ state: {}, rateLimit: "api", concurrencyKey: "gate" })),
  );
  expect(await readBuckets(database)).toEqual([]);
  expect((await pickRows(connection)).rows).toHaveLength(2);
  expect(await readBuckets(database)).toMatchObject([
    { kind: "conc", available: 3 },
    { kind: "rate", capacity: 2, available: 0 },
  ]);
});

test("RET-04: every try of a retried step takes its tokens anew", async () => {
  await configure(database, { api: { limit: 5, rate: 0 } });
  await insertRated(1, "api", 2);
  for (const available of [3, 1]) {
    const { rows } = await pickRows(connection);
    expect(await readBuckets(database)).toMatchObject([{ available }]);
    await settle(connection, rows, retry());
  }
  expect((await pickRows(connection)).rows).toEqual([]);
});

test("CHI-14: of two children under a cold limit with a burst of one, one is admitted", async () => {
  await configure(database, { api: { limit: 1, rate: 0 } });
  await insertRow(database);
  const kid = { fsm: "plain", rateLimit: "api" };
  await settle(connection, (await pickRows(connection)).rows, children([kid, kid]));
  expect((await pickRows(connection)).rows).toHaveLength(1);
  expect(await readBuckets(database)).toMatchObject([{ key: "api", available: 0 }]);
});
