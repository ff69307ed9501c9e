// Chains under limits: the whole table of what becomes of the key and the slot between two steps.
import { afterEach, beforeAll, expect, test } from "@jest/globals";
import { gateErrors, readBuckets } from "../limits/rig.js";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { readHistory, recordHistory } from "../support/history.js";
import { insertRow, readRow } from "../support/rows.js";
import { seededRandom } from "../support/seed.js";
import { until } from "../support/until.js";
import type { Stop } from "./machines.js";
import { claims, ended, insertWalk, overlaps, poke, startWalkers, stopsOf } from "./rig.js";

const database = await createDatabase();

beforeAll(async () => {
  await createAudit(database);
  await recordHistory(database);
  await startWalkers(database, {
    queues: { default: 20 },
    concurrencyLimits: { one: { limit: 1 }, pool: { limit: 2, shards: 2 } },
    rateLimits: { slow: { allowed: 1, period: "1 hour" }, fast: { allowed: 1_000, period: "1 hour" } },
  });
});
afterEach(async () => {
  expect(await gateErrors(database)).toEqual([]);
  const left = await readBuckets(database);
  expect(left.filter(({ kind, capacity, available }) => kind === "conc" && capacity !== available)).toEqual(
    [],
  );
  await database.query(
    "TRUNCATE gen_durable, signals, gen_durable_buckets, public.test_audit, public.test_control, test_history",
  );
});

/** Resolves when so many steps of the instance have begun. */
const begun = (id: number, steps: number) =>
  until(async () => (await readAudit(database, id)).length === steps, {
    describe: `instance ${id} is in its step ${steps}`,
  });

const inUse = async (key: string): Promise<number> =>
  (await readBuckets(database, key)).reduce((sum, { capacity, available }) => sum + capacity - available, 0);

test("a key that is kept keeps its slot, the same one, through the whole chain", async () => {
  const id = await insertWalk(database, [{}, { hold: "a" }, { hold: "b" }], { concurrency_key: "one" });
  await begun(id, 2);
  const before = await readRow(database, id);
  expect(await inUse("one")).toBe(1);
  const other = await insertWalk(database, [{}], { concurrency_key: "one" });
  await letGo(database, "a");
  await begun(id, 3);
  const { locked_by, concurrency_key, concurrency_shard } = await readRow(database, id);
  expect({ locked_by, concurrency_key, concurrency_shard }).toEqual({
    locked_by: before.locked_by,
    concurrency_key: "one",
    concurrency_shard: before.concurrency_shard,
  });
  expect(await readAudit(database, other)).toEqual([]);
  await letGo(database, "b");
  await ended(database, id);
  await ended(database, other);
});

test("INL-10: a key that is released gives its slot back with the commit: another of it runs while the chain goes on", async () => {
  const id = await insertWalk(database, [{ to: { concurrencyKey: null } }, { hold: "h" }], {
    concurrency_key: "one",
  });
  await begun(id, 2);
  await ended(database, await insertWalk(database, [{}], { concurrency_key: "one" }));
  expect(await readRow(database, id)).toMatchObject({
    status: "executing",
    concurrency_key: null,
    concurrency_shard: null,
  });
  await letGo(database, "h");
  await ended(database, id);
  expect(claims(await readHistory(database, id))).toBe(1);
});

test("the same of a key that is no gate: its next row starts while the chain goes on", async () => {
  const id = await insertWalk(database, [{ to: { concurrencyKey: null } }, { hold: "h" }], {
    concurrency_key: "solo",
  });
  await begun(id, 2);
  await ended(database, await insertWalk(database, [{}], { concurrency_key: "solo" }));
  await letGo(database, "h");
  await ended(database, id);
});

test("INL-07, INL-11: from gate to gate: the old slot is credited once and the new one drawn once, on the same claim", async () => {
  const stops: Stop[] = [
    { to: { concurrencyKey: "pool:x" } },
    { hold: "a", to: { concurrencyKey: "one" } },
    { hold: "b" },
  ];
  const id = await insertWalk(database, stops);
  await begun(id, 2);
  expect([await inUse("pool:x"), await inUse("one")]).toEqual([1, 0]);
  expect((await readRow(database, id)).concurrency_shard).toBeGreaterThanOrEqual(0);
  await letGo(database, "a");
  await begun(id, 3);
  expect([await inUse("pool:x"), await inUse("one")]).toEqual([0, 1]);
  await letGo(database, "b");
  await ended(database, id);
  expect(claims(await readHistory(database, id))).toBe(1);
});

test("a gate that is full requeues the chain, and the picker admits it later", async () => {
  const holder = await insertWalk(database, [{ hold: "h" }], { concurrency_key: "one" });
  await begun(holder, 1);
  const id = await insertWalk(database, [{ to: { concurrencyKey: "one" } }, {}, {}]);
  await until(
    async () =>
      (await readRow(database, id)).status === "runnable" && (await readAudit(database, id)).length === 1,
  );
  expect(await readRow(database, id)).toMatchObject({
    visit: 2,
    attempt: 0,
    crashes: 0,
    locked_by: null,
    concurrency_key: "one",
    concurrency_shard: null,
  });
  expect(await gateErrors(database)).toEqual([]);
  await letGo(database, "h");
  await ended(database, id);
  expect(claims(await readHistory(database, id))).toBe(2);
});

test("INL-04: a rate that affords the next step gives its tokens, and it runs on", async () => {
  const id = await insertWalk(database, [
    { to: { rateLimit: "fast", weight: 10 } },
    { to: { rateLimit: "fast" } },
    {},
  ]);
  await ended(database, id);
  expect(claims(await readHistory(database, id))).toBe(1);
  expect(Math.round(await inUse("fast"))).toBe(11);
});

test("INL-05: without a token the row waits in its queue at the next step, and runs when it is back", async () => {
  const stops: Stop[] = [{ to: { rateLimit: "slow" } }, {}, {}];
  await ended(database, await insertWalk(database, stops));
  const id = await insertWalk(database, stops);
  await until(
    async () =>
      (await readRow(database, id)).visit === 2 && (await readRow(database, id)).status === "runnable",
  );
  expect(await readRow(database, id)).toMatchObject({ attempt: 0, rate_limit: "slow", locked_by: null });
  await database.query("UPDATE gen_durable_buckets SET available = 1 WHERE kind = 'rate' AND key = 'slow'");
  await until(
    async () => {
      await poke(database);
      return (await readRow(database, id)).status === "done";
    },
    { everyMs: 100 },
  );
  expect(claims(await readHistory(database, id))).toBe(2);
});

test("K1: an exclusive key stays exclusive through its chains", async () => {
  for (let n = 0; n < 6; n++)
    await insertRow(database, {
      fsm: "chained",
      step: "walk",
      state: { stops: stopsOf(4, { ms: 2 }) },
      concurrency_key: "solo",
    });
  await poke(database);
  await until(
    async () => (await database.query("SELECT 1 FROM gen_durable WHERE status <> 'done'")).length === 0,
  );
  const order = (await readAudit(database)).map(({ instance }) => instance);
  // Whoever has the key keeps it to its chain's end.
  expect(order.filter((id, n) => id !== order[n - 1])).toHaveLength(6);
});

test("chains that hop between gates never run more of one at once than it allows, by the steps' own account", async () => {
  const random = seededRandom("hops");
  const keys = ["one", "one:b", "pool", "pool:b", null];
  const plans = Array.from({ length: 60 }, () =>
    Array.from({ length: 5 }, (): Stop => {
      const hop = random.between(0, keys.length);
      return {
        ms: random.between(0, 3),
        to: hop === keys.length ? {} : { concurrencyKey: keys[hop] ?? null },
      };
    }),
  );
  const ids = [];
  for (const stops of plans)
    ids.push(await insertRow(database, { fsm: "chained", step: "walk", state: { stops } }));
  await poke(database);
  let over: unknown[] = [];
  await until(
    async () => {
      // One look is one moment for all rows.
      over = over.concat(
        await database.query(
          `SELECT concurrency_key, count(*) FROM gen_durable WHERE status = 'executing' AND concurrency_shard >= 0
           GROUP BY 1 HAVING count(*) > CASE concurrency_name WHEN 'one' THEN 1 ELSE 2 END`.replace(
            "GROUP BY 1",
            "GROUP BY 1, concurrency_name",
          ),
        ),
      );
      return (await database.query("SELECT 1 FROM gen_durable WHERE status <> 'done' LIMIT 1")).length === 0;
    },
    { describe: "all chains are done" },
  );
  expect(over).toEqual([]);
  const audit = await readAudit(database);
  expect(audit).toHaveLength(300);
  expect(overlaps(audit, new Map(ids.map((id, n) => [id, plans[n] ?? []])))).toEqual([]);
});
