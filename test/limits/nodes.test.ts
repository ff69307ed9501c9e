// Limits on real nodes.
import { resolve } from "node:path";
import { afterEach, beforeAll, expect, test } from "@jest/globals";
import { pokeChannel } from "#core/poke.js";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { FAR_POLLS, type NodeProcess, startNode } from "../support/node.js";
import { countStatuses, insertRow, readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { configure, gateErrors, readBuckets } from "./rig.js";

const database = await createDatabase();
const nodes: NodeProcess[] = [];

async function start(
  config: Record<string, unknown> = {},
  env: Record<string, string> = {},
): Promise<NodeProcess> {
  const node = await startNode({
    database,
    env,
    fsms: ["basic", "limited"],
    config: { ...FAR_POLLS, leaseTtlMs: 30_000, heartbeatIntervalMs: 2_000, ...config },
  });
  nodes.push(node);
  return node;
}

beforeAll(() => createAudit(database));

afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.stop()));
  expect(await gateErrors(database)).toEqual([]);
  await database.query(
    "TRUNCATE gen_durable, signals, gen_durable_buckets, gen_durable_bucket_configs, public.test_audit, public.test_control",
  );
});

const poke = (queue = "default") =>
  database.query("SELECT pg_notify($1, $2)", [pokeChannel("gen_durable"), queue]);
const allDone = (count: number) =>
  until(async () => (await countStatuses(database)).done === count, { describe: `${count} rows are done` });

async function insertMany(
  count: number,
  columns: { fsm?: string; state?: unknown; key?: string; rate?: string },
) {
  await database.query(
    `INSERT INTO gen_durable (fsm, step, state, concurrency_key, rate_limit)
     SELECT $1, $2, $3, replace($4, '*', n::text), replace($5, '*', n::text) FROM generate_series(1, $6) n`,
    [
      columns.fsm ?? "plain",
      columns.fsm === "steps" ? "step" : "start",
      JSON.stringify(columns.state ?? {}),
      columns.key ?? null,
      columns.rate ?? null,
      count,
    ],
  );
}

/** Pairs of intervals of one key that overlap, by the steps' own entries. */
const overlaps = () =>
  database.query(`
    SELECT g.concurrency_key AS key, a.n, b.n FROM public.test_audit a JOIN gen_durable g ON g.id = a.instance
    JOIN gen_durable h ON h.concurrency_key = g.concurrency_key
    JOIN public.test_audit b ON b.instance = h.id AND b.n > a.n AND b.entered_at < a.left_at`);

test("K1-05, K1-10: over two nodes no two steps of a key overlap, and nothing is lost or run twice", async () => {
  await Promise.all([start(), start()]);
  await insertMany(20, { fsm: "steps", state: { left: 2, ms: 5 }, key: "a:*" });
  await insertMany(20, { fsm: "steps", state: { left: 2, ms: 5 }, key: "a:*" });
  await poke();
  await allDone(40);
  expect(await overlaps()).toEqual([]);
  expect(await readAudit(database)).toHaveLength(80);
});

/** The middle one. */
const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

/** The middle distance between the entries of steps that follow each other. */
async function medianGap(fsm: string): Promise<number> {
  const entered = (await readAudit(database))
    .filter((entry) => entry.fsm === fsm)
    .map((entry) => entry.entered_at.getTime());
  return median(entered.slice(1).map((at, index) => at - (entered[index] ?? 0)));
}

test("a busy key hands over to its next row without waiting for a scan: as fast as an instance goes to its next step", async () => {
  await start();
  await insertRow(database, { fsm: "counter", step: "count", state: { target: 20 } });
  await poke();
  await allDone(1);
  const pace = await medianGap("counter");
  await insertMany(20, { key: "solo" });
  await poke();
  await allDone(21);
  expect(await overlaps()).toEqual([]);
  expect(await medianGap("plain")).toBeLessThan(2 * pace + 50);
});

/** Milliseconds from an insert into the queue, with its poke, to the step's entry. */
async function startLatency(queue: string): Promise<number> {
  const id = await insertRow(database, { queue });
  await poke(queue);
  let row = "";
  const entry = await until(
    async () => {
      row = JSON.stringify(await readRow(database, id));
      return (await readAudit(database, id)).at(0);
    },
    {
      everyMs: 5,
      describe: () => `row ${row} of ${queue} starts; the node says\n${nodes[0]?.stderr.slice(-4_000)}`,
    },
  );
  const { at } = await database.one<{ at: Date }>("SELECT inserted_at AS at FROM gen_durable WHERE id = $1", [
    id,
  ]);
  return entry.entered_at.getTime() - at.getTime();
}

test.each(["gate", "rate"] as const)(
  "GATE-17, RATE-20: 10,000 rows of a saturated %s hold up nobody: unrelated rows start within 100 ms at the median",
  async (kind) => {
    await configure(database, { full: kind === "gate" ? { limit: 2 } : { limit: 2, rate: 0.5 } });
    await start({ queues: { default: 10, free: 10 } });
    const limit = kind === "gate" ? { key: "full" } : { rate: "full" };
    await insertMany(10_000, { fsm: "hold", ...limit });
    await poke();
    await until(async () => (await countStatuses(database)).executing === 2, {
      describe: "the limit is used up",
    });
    // On a machine that is busy with other things, what counts is what the backlog adds: rows of a queue without one are
    // inserted in turn.
    const behind: number[] = [];
    const free: number[] = [];
    for (let i = 0; i < 11; i++) {
      behind.push(await startLatency("default"));
      free.push(await startLatency("free"));
    }
    expect(median(behind)).toBeLessThan(Math.max(100, 4 * median(free)));
    await database.query("DELETE FROM gen_durable WHERE status = 'runnable'");
    await letGo(database);
  },
);

test("K1-10, RATE-17, TEL-05: a node that loses a race for a key, and one for a cold counter, says so, and runs the row after it", async () => {
  await configure(database, { api: { limit: 5, rate: 0 } });
  const node = await start(
    {},
    {
      NODE_OPTIONS: `--require ${resolve("test/support/eventLog.cjs")}`,
      GEN_DURABLE_TEST_EVENTS: "contended",
    },
  );
  const told = () => node.log.filter(({ msg }) => msg === "event contended");
  const winner = await database.session();
  const races = [
    [
      { concurrency_key: "solo" },
      "INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at, concurrency_key) VALUES ('plain', 'start', 'executing', 'x/1', now() + interval '1 hour', 'solo')",
    ],
    [
      { rate_limit: "api" },
      "INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available, last_refill) VALUES ('rate', 'api', 0, 5, 2, now())",
    ],
  ] as const;
  for (const [limit, first] of races) {
    const before = told().length;
    await winner.query("BEGIN");
    await winner.query(first);
    const id = await insertRow(database, limit);
    await poke();
    await until(() => told().length > before, { describe: "the node says that it lost a race" });
    expect(told().at(-1)).toMatchObject({ queue: "default" });
    await winner.query("ROLLBACK");
    await until(async () => (await readRow(database, id)).status === "done");
  }
});

test("a gate of 3 over two nodes: never more at once, and every slot is back", async () => {
  await Promise.all([start({ concurrencyLimits: { api: { limit: 3, shards: 2 } } }), start()]);
  await insertMany(30, { fsm: "steps", state: { left: 2, ms: 5 }, key: "api" });
  await poke();
  let most = 0;
  await until(async () => {
    const { executing = 0, done = 0 } = await countStatuses(database);
    most = Math.max(most, executing);
    return done === 30;
  });
  expect(most).toBeLessThanOrEqual(3);
  const buckets = await readBuckets(database);
  expect(buckets.map(({ capacity, available }) => capacity - available)).toEqual(buckets.map(() => 0));
});

test("RATE-04: a refilled token starts the next row by itself, without a poll", async () => {
  await start({ rateLimits: { api: { allowed: 20, period: 1_000, burst: 1 } } });
  await insertMany(5, { rate: "api" });
  await poke();
  await allDone(5);
  const entered = (await readAudit(database)).map((entry) => entry.entered_at.getTime());
  expect((entered.at(-1) ?? 0) - (entered[0] ?? 0)).toBeGreaterThanOrEqual(180);
});

test("RATE-14: a rate limit that is configured nowhere stalls its rows alone, and is told of once", async () => {
  const node = await start();
  await insertMany(3, { rate: "typo" });
  const free = await insertRow(database);
  await poke();
  await until(async () => (await readRow(database, free)).status === "done");
  await node.logged("rows wait for a rate limit that nobody has configured");
  expect(await countStatuses(database)).toEqual({ runnable: 3, done: 1 });
});

test("K1-11: a step that runs under a key holds no connection: twenty of them add none to the node's", async () => {
  await start({ queues: { default: 20 } });
  const connections = async () =>
    (
      await database.one<{ n: number }>(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'gen-durable %'",
      )
    ).n;
  // Every connection that the node needs for one row.
  await insertMany(1, { key: "warm" });
  await poke();
  await allDone(1);
  const idle = await connections();
  await insertMany(20, { fsm: "hold", key: "a:*" });
  await poke();
  await until(async () => (await countStatuses(database)).executing === 20, { describe: "all of them run" });
  expect(await connections()).toBeLessThanOrEqual(idle);
  await letGo(database);
  await allDone(21);
});

test("GATE-16: a node that brings a limit whose name takes live exclusive keys warns of it, once", async () => {
  await insertMany(1, { fsm: "hold", key: "order:42" });
  await database.query("UPDATE gen_durable SET eligible_at = now() + interval '1 hour'");
  const limits = { concurrencyLimits: { order: { limit: 5 }, stripe: { limit: 5 } } };
  const first = await start(limits);
  const warning = "a new concurrency limit takes keys that were exclusive until now";
  expect(await first.logged(warning)).toMatchObject({ level: 40, limit: "order", key: "order:42" });
  const second = await start(limits);
  expect(second.stderr).not.toContain(warning);
  expect(first.stderr.split(warning)).toHaveLength(2);
});
