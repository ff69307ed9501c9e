// limits: what each kind of limit costs, as a ratio to the drain of a node without any limits in the same round; what a node that
// has limits costs rows that have none; and what a pick costs behind a deep backlog of one busy key.
// Machine:  printed; Postgres and node share it. fsync and synchronous_commit are on.
// Settings: two nodes, one with limits and one without, each on a database of its own and idle while the other is measured. Queue
//           concurrency 1,000, one flusher, far polls. Gates admit 10,000: more than the node can have in flight (1,000 that run,
//           2,000 ahead, 4,096 that wait for their commit), so that what is measured is the admission, not the waiting.
// Method:   rounds; each goes through all shapes, a drain each, from the rows' commit to the last one's, by the database's clock.
//           A ratio is the median of the rounds' own ratios. Unlimited rows on the node with limits are drained when that node's
//           picks have become those of a queue without limits. Every other round goes through the shapes backwards, so that what
//           a round's first drain finds (a pause, a cold cache) meets both ends.

import { setTimeout as sleep } from "node:timers/promises";
import { claimLimited, pickTransaction } from "#coordinator/claimLimited.js";
import { PostgresLimiter } from "#coordinator/limiter/postgresLimiter.js";
import { LimitedSearch } from "#coordinator/limiter/search.js";
import { Statements } from "#core/database/statements.js";
import { pokeChannel } from "#core/poke.js";
import type { TestDatabase } from "../test/support/database.js";
import { until } from "../test/support/until.js";
import type { Benchmark } from "./bench.js";
import { median } from "./report.js";

const DRAIN_TIMEOUT_MS = 300_000;

/** More than one node can have in flight. */
const WIDE_LIMIT = 10_000;
/** A queue that met no limited row for two seconds is claimed as one without limits; this long is surely past it. */
const QUIET_MS = 3_000;

interface Shape {
  name: string;
  /** Drained by the node that has no limits. */
  isPlain?: boolean;
  /** Drained only after the node has met no limited row for a while. */
  isQuiet?: boolean;
  /** SQL of the key and of the rate limit of row n. */
  key?: string;
  rate?: string;
  /** At least so much of the unlimited figure. */
  target?: number;
}

const SHAPES: readonly Shape[] = [
  { name: "unlimited", isPlain: true },
  { name: "unlimited, limits configured", isQuiet: true, target: 0.95 },
  { name: "one hot gate", key: "'gate'" },
  { name: "gate with 8 shards", key: "'wide'", target: 0.85 },
  { name: "100 partitions of a gate", key: "'gate:' || n % 100" },
  { name: "2,000 cold keys", key: "'account:' || n % 2000" },
  { name: "one hot bucket", rate: "'rate'", target: 0.95 },
];

export const limits: Benchmark = {
  name: "limits",
  about: "the drain under limits, against the same node without; picks behind a busy key",
  options: { rows: 20_000, rounds: 3, workers: 1, backlog: 50_000 },
  async run(bench, options, report) {
    const { rows = 0, rounds = 0, workers = 0, backlog = 0 } = options;
    const config = {
      queues: { bench: 1_000 },
      flushers: [{ queues: "all", maxBatch: 1_000, maxDelayMs: 20 }],
      pollIntervalMs: 60_000,
      maxPollIntervalMs: 60_000,
      gc: false,
    };
    const plain = await bench.createDatabase("plain");
    const limited = await bench.createDatabase("limits");
    const nodes = [
      await bench.startNode(plain, config, workers),
      await bench.startNode(
        limited,
        {
          ...config,
          concurrencyLimits: { gate: { limit: WIDE_LIMIT }, wide: { limit: WIDE_LIMIT, shards: 8 } },
          rateLimits: { rate: { allowed: 1_000_000, period: "1 second" } },
        },
        workers,
      ),
    ];
    for (const database of [plain, limited]) await measure(database, rows, SHAPES[0] as Shape);
    const rates = new Map<string, number[]>();
    for (let round = 1; round <= rounds; round++) {
      for (const shape of round % 2 === 0 ? [...SHAPES].reverse() : SHAPES) {
        if (shape.isQuiet === true) await sleep(QUIET_MS);
        const rate = await measure(shape.isPlain === true ? plain : limited, rows, shape);
        rates.set(shape.name, [...(rates.get(shape.name) ?? []), rate]);
        console.log(`round ${round}: ${shape.name}: ${Math.round(rate)} rows/s`);
      }
    }
    for (const node of nodes) if (node.hasExited) throw new Error(`a node ended early:\n${node.stderr}`);
    const unlimited = rates.get("unlimited") ?? [];
    for (const { name, target } of SHAPES) {
      const shapes = rates.get(name) ?? [];
      report.figure(name, median(shapes), "rows/s");
      const ratio = median(shapes.map((rate, round) => rate / (unlimited[round] ?? Number.NaN)));
      const figure = `${name.replaceAll(/\W+/g, "_")}_ratio`;
      if (target !== undefined) report.check(figure, ratio, "of unlimited", "atLeast", target);
      else if (name !== "unlimited") report.figure(figure, ratio, "of unlimited");
    }
    const free = await measurePicks(await bench.createDatabase("free"), 0);
    const behind = await measurePicks(await bench.createDatabase("behind"), backlog);
    report.figure("pick", free, "ms");
    report.figure(`pick behind ${backlog} rows of a busy key`, behind, "ms");
    report.check("busy_key_ratio", behind / free, "of a normal pick", "atMost", 2);
  },
};

/** Rows a second. */
async function measure(database: TestDatabase, rows: number, { key, rate }: Shape): Promise<number> {
  await database.query("TRUNCATE gen_durable, gen_durable_buckets CASCADE");
  const { ms: startMs } = await database.one<{ ms: number }>(
    `WITH inserted AS (
       INSERT INTO gen_durable (fsm, step, queue, state, concurrency_key, rate_limit)
       SELECT 'oneStep', 'only', 'bench', '{"n":0}', ${key ?? "NULL"}, ${rate ?? "NULL"} FROM generate_series(1, $1::int) n
     )
     SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS float8) AS ms, pg_notify($2, 'bench')`,
    [rows, pokeChannel("gen_durable")],
  );
  await until(
    async () =>
      (
        await database.query(
          "SELECT 1 FROM gen_durable WHERE status IN ('runnable', 'executing') AND queue = 'bench' LIMIT 1",
        )
      ).length === 0,
    { timeoutMs: DRAIN_TIMEOUT_MS, everyMs: 50, describe: "the node has drained the queue" },
  );
  const { ms: endMs } = await database.one<{ ms: number }>(
    "SELECT CAST(extract(epoch FROM max(updated_at)) * 1000 AS float8) AS ms FROM gen_durable",
  );
  return rows / ((endMs - startMs) / 1_000);
}

/** The mean of sustained picks of 20 rows, as a picker makes them, behind so many rows of one busy key. */
async function measurePicks(database: TestDatabase, backlog: number): Promise<number> {
  const picks = 300;
  await database.query(
    "INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at, concurrency_key) VALUES ('plain', 'start', 'executing', 'n/1', now() + interval '1 hour', 'busy')",
  );
  await database.query(
    "INSERT INTO gen_durable (fsm, step, concurrency_key) SELECT 'plain', 'start', 'busy' FROM generate_series(1, $1::int)",
    [backlog],
  );
  await database.query(
    "INSERT INTO gen_durable (fsm, step) SELECT 'plain', 'start' FROM generate_series(1, $1::int)",
    [picks * 20 + 1_000],
  );
  await database.query("VACUUM ANALYZE gen_durable");
  const connection = await database.connection();
  const statements = new Statements("gen_durable");
  await connection.run(statements.get("node/pin_plans"));
  const limiter = new PostgresLimiter(statements);
  const search = new LimitedSearch(performance.now());
  const startedAtMs = performance.now();
  let claimed = 0;
  let count = 0;
  for (; claimed < picks * 20; count++) {
    const step = search.begin(20, performance.now());
    const claim = await claimLimited(
      connection,
      { statements, limiter, transaction: pickTransaction(true) },
      {
        ...step,
        queue: "default",
        claim: `bench/${count}`,
        leaseTtlMs: 60_000,
        known: { names: ["plain"], versions: [1] },
      },
    );
    search.end(step, claim, performance.now());
    // Somebody inserts all the time.
    search.poke();
    claimed += claim.rows.length;
  }
  return (performance.now() - startedAtMs) / picks;
}
