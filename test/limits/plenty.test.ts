// Plenty: the claim that takes rows and what they need of their limits in one statement, or nothing.
import { beforeEach, expect, test } from "@jest/globals";
import { isRace } from "#coordinator/claimLimited.js";
import { LimitedSearch } from "#coordinator/limiter/search.js";
import { reconcileGates, sweepRates } from "#coordinator/limiter/sweep.js";
import { createDatabase } from "../support/database.js";
import { countBlocked } from "../support/locks.js";
import { done, next, recorded } from "../support/outcomes.js";
import { until } from "../support/until.js";
import { configure, gateErrors, pickRows, readBuckets, settle, statements } from "./rig.js";

const database = await createDatabase();
const connection = await database.connection();

beforeEach(() =>
  database.query("TRUNCATE gen_durable, signals, gen_durable_buckets, gen_durable_bucket_configs"),
);

const insert = (count: number, key: string | null, rate: string | null = null, weight = 1) =>
  database.query(
    `INSERT INTO gen_durable (fsm, step, concurrency_key, rate_limit, weight)
     SELECT 'plain', 'start', replace($1, '*', (n % 5)::text), $2, $3 FROM generate_series(1, $4) n`,
    [key, rate, weight, count],
  );

/** Makes the counters of these keys, as a first pick does. */
async function warm(key: string | null, rate: string | null = null): Promise<void> {
  await insert(5, key, rate);
  await settle(connection, (await pickRows(connection)).rows, done());
}

test("CP1: gates, rates and rows without limits are claimed and debited by one statement", async () => {
  await configure(database, { api: { limit: 100, shards: 4 }, sms: { limit: 200, rate: 0, shards: 2 } });
  await warm("api:*", "sms");
  await insert(50, "api:*", "sms", 0.5);
  await insert(10, null);
  const session = recorded(connection);
  const claim = await pickRows(session, { isPlenty: true });
  expect(session.sent).toHaveLength(1);
  expect(claim).toMatchObject({ plenty: "had", seen: 60, isCut: false, isLimited: true, denials: [] });
  expect(claim.rows).toHaveLength(60);
  expect(claim.keys.filter((key) => key === null)).toHaveLength(10);
  expect(await gateErrors(database)).toEqual([]);
  const tokens = (await readBuckets(database)).filter(({ kind }) => kind === "rate");
  expect(tokens.reduce((sum, { available }) => sum + available, 0)).toBeCloseTo(200 - 5 - 25);
});

test("slots come from one shard as long as it lasts, then from the next", async () => {
  await configure(database, { api: { limit: 100, shards: 4 } });
  await warm("api");
  const taken = async () =>
    (await readBuckets(database)).map(({ capacity, available }) => capacity - available).sort();
  await insert(20, "api");
  expect((await pickRows(connection, { isPlenty: true })).plenty).toBe("had");
  expect(await taken()).toEqual([0, 0, 0, 20]);
  await insert(40, "api");
  expect((await pickRows(connection, { isPlenty: true })).plenty).toBe("had");
  expect((await taken()).reduce((a, b) => a + b)).toBe(60);
  expect(await gateErrors(database)).toEqual([]);
});

test.each([
  ["a gate with less than twice what is wanted", { key: "api", limit: 19 }],
  ["an empty rate", { rate: "sms", limit: 19 }],
  ["an exclusive key", { key: "acct", limit: 100 }],
  ["a rate that nobody has configured", { rate: "typo", limit: 100 }],
  ["a limit that has changed", { key: "api", limit: 100, later: 200 }],
  ["a limit that was taken away", { key: "api", limit: 100, later: 0 }],
  ["a cold gate", { key: "api:cold", limit: 100 }],
])(
  "CP1, CP2: beside %s nothing is claimed at once; the pick that looks decides",
  async (_, { limit, ...spec }) => {
    const { key = null, rate = null, later } = spec as { key?: string; rate?: string; later?: number };
    await configure(database, { api: { limit }, sms: { limit, rate: 0 } });
    await warm("api", "sms");
    if (later === 0) await database.query("DELETE FROM gen_durable_bucket_configs WHERE name = 'api'");
    else if (later !== undefined) await configure(database, { api: { limit: later } });
    await insert(10, key, rate);
    await insert(10, null);
    const claim = await pickRows(connection, { isPlenty: true });
    expect(claim.plenty).toBe("missed");
    expect(claim.rows.length).toBeGreaterThanOrEqual(10);
    expect(await gateErrors(database)).toEqual([]);
  },
);

test.each([
  ["takes them", "UPDATE gen_durable_buckets SET available = 0 WHERE kind = 'conc'"],
  ["sweeps the counter", "DELETE FROM gen_durable_buckets WHERE kind = 'conc'"],
  ["lowers the limit", "UPDATE gen_durable_buckets SET capacity = 50, available = 50 WHERE kind = 'conc'"],
])("CP1: slots that were there, until somebody %s: nothing of the claim is committed", async (_, change) => {
  await configure(database, { api: { limit: 100 } });
  await warm("api");
  await insert(20, "api");
  const other = await database.session();
  await other.query("BEGIN");
  await other.query(change);
  let contended = 0;
  let executing = -1;
  const picking = pickRows(connection, { isPlenty: true }, () => {
    contended++;
  });
  await until(async () => (await countBlocked(database)) > 0 || contended > 0, { everyMs: 1 });
  executing = (
    await database.one<{ n: number }>("SELECT count(*) AS n FROM gen_durable WHERE status = 'executing'")
  ).n;
  await other.query("COMMIT");
  const claim = await picking;
  expect({ executing, plenty: claim.plenty }).toEqual({ executing: 0, plenty: "missed" });
  expect(contended).toBeGreaterThanOrEqual(1);
  if (change.startsWith("UPDATE gen_durable_buckets SET available")) expect(claim.rows).toEqual([]);
  else expect(await gateErrors(database)).toEqual([]);
});

test("pickers of two nodes that claim at once, beside sweeps and nodes that die: the counters are true, and nothing is stuck", async () => {
  await configure(database, {
    api: { limit: 300, shards: 3 },
    part: { limit: 120 },
    sms: { limit: 100_000, rate: 1_000 },
  });
  await insert(500, "api", "sms");
  await insert(500, "part:*");
  await insert(500, null, "sms", 2);
  const had = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const picker = await database.connection();
      const search = new LimitedSearch(performance.now());
      let count = 0;
      for (let empty = 0; empty < 3; ) {
        const step = search.begin(20, performance.now());
        // The sweeps take the counters away all the time: a pick that has lost its race too often comes again, as a picker's does.
        const claim = await pickRows(picker, step).catch((error) => {
          if (isRace(error)) return null;
          throw error;
        });
        if (claim === null) {
          search.fail();
          continue;
        }
        search.end(step, claim, performance.now());
        search.poke();
        if (claim.plenty === "had") count++;
        empty = claim.rows.length > 0 ? 0 : empty + 1;
        const half = claim.rows.length >> 1;
        await settle(picker, claim.rows.slice(0, half), next("start"));
        await settle(picker, claim.rows.slice(half), done());
        if (count % 10 === 1) await reconcileGates(picker, statements);
        if (count % 10 === 2) await sweepRates(picker, statements);
      }
      return count;
    }),
  );
  // How many picks find plenty is a matter of who comes when; that some do is what the rest of this test is about.
  expect(had.reduce((a, b) => a + b)).toBeGreaterThan(0);
  expect(await gateErrors(database)).toEqual([]);
  expect(await database.query("SELECT status, count(*) AS n FROM gen_durable GROUP BY 1")).toEqual([
    { status: "done", n: 1_500 },
  ]);
  expect(database.log().filter((line) => line.includes("deadlock"))).toEqual([]);
});
