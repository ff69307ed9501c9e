// latency: how soon an idle node starts and finishes what another process inserts, beside what a commit costs on the same server; the same
// under half load; how late delayed instances start; and what an idle node asks of the database.
// Machine:  printed; Postgres, node and caller share it. fsync and synchronous_commit are on.
// Settings: the defaults of a node, with one queue; under half load queue concurrency 1,000, batches of at most 1,000, far polls, no GC.
// Method:   20 warm-up inserts, then one every 120 ms, and half-way between two of them a raw commit: one row into a table of one column. Then
//           inserts that follow each other every 20 ms. The insert call's beginning is taken in this process and the step's beginning in
//           the node, both from the machine's clock. `done` is seen by another session through a trigger that notifies, hence after the
//           commit. Half load: a drain says what the node can; then half as many rows come in every 20 ms with `insertMany`, whether or not the
//           node keeps up, and of each 20 ms one row is timed from when it was due. Delayed instances are inserted together, due at
//           random within two seconds; lateness is their step's beginning after `eligible_at`. Idle queries are counted in the server's log.

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "gen-durable";
import type { TestDatabase } from "../test/support/database.js";
import { until } from "../test/support/until.js";
import type { Benchmark } from "./bench.js";
import { stamped } from "./fsms/bench.js";
import { measureHalfLoad } from "./halfLoad.js";
import { measureIdle } from "./idleChatter.js";
import { median, quantile, type Report } from "./report.js";
import { nowMs, type Watcher, watchDone } from "./watchDone.js";

const WARM_UP = 20;
/** Further apart than the window in which a client's pokes are coalesced: the node is idle at each insert. */
const SPACING_MS = 120;
/** Inserts that follow each other closely share their pokes; shown without a target. */
const CLOSE_SPACING_MS = 20;
const DELAYED_WITHIN_MS = 2_000;
const DELAYED_FROM_MS = 300;
/** About one a queue, and about one of the node's own: its heartbeat every 2 s, its looks at other nodes and at due rows. */
export const IDLE_TARGET = 2;
/** The slowest tenth of raw commits begins here. */
const RAW_SHARE = 0.9;
const RAW_TARGET = 5;
const DONE_TIMEOUT_MS = 30_000;

export const latency: Benchmark = {
  name: "latency",
  about:
    "from an insert in another process to the step's start and to `done`, idle and under half load; timers; idle queries",
  options: {
    inserts: 200,
    delayed: 200,
    idleSeconds: 20,
    workers: 1,
    loadSeconds: 20,
    loadDrainRows: 50_000,
  },
  async run(bench, options, report) {
    const { inserts = 0, delayed = 0, idleSeconds = 0, workers = 0 } = options;
    const { loadSeconds = 0, loadDrainRows = 0 } = options;
    const database = await bench.createDatabase("latency");
    const watcher = await watchDone(database);
    const client = createClient({ url: database.url });
    const node = await bench.startNode(database, { queues: { bench: 10 } }, workers);
    const commitRaw = await rawCommits(database);
    const measure = (count: number, spacingMs: number, between = async (): Promise<unknown> => undefined) =>
      measureInserts(client, watcher, { count, spacingMs, between });
    const rawMs: number[] = [];
    await measure(WARM_UP, SPACING_MS, commitRaw);
    const times = await measure(inserts, SPACING_MS, async () => rawMs.push(await commitRaw()));
    const close = await measure(inserts, CLOSE_SPACING_MS);
    reportIdle(times, rawMs, report);
    report.figure("close_start_p50", median(close.map((time) => time.startMs)), "ms, one insert every 20 ms");
    await measureDelayed(client, database, delayed, report);
    await client.close();
    await watcher.close();
    await node.stop();
    if (loadSeconds > 0)
      await measureHalfLoad(bench, { drainRows: loadDrainRows, seconds: loadSeconds, workers }, report);
    const idle = await measureIdle(bench, "idle", { seconds: idleSeconds, workers });
    report.check("idle_queries_per_second", idle, "queries a second", "atMost", IDLE_TARGET);
  },
};

type Client = ReturnType<typeof createClient>;

interface Times {
  startMs: number;
  doneMs: number;
}

function reportIdle(times: readonly Times[], rawMs: readonly number[], report: Report): void {
  const starts = times.map((time) => time.startMs);
  const ends = times.map((time) => time.doneMs);
  const raw = quantile(rawMs, RAW_SHARE);
  report.figure("raw_commit_p50", median(rawMs), "ms, one row by a session that is there already");
  report.figure("raw_commit_p90", raw, "ms");
  report.check("start_p50", median(starts), "ms to the step's start", "atMost", 5);
  report.figure("start_p99", quantile(starts, 0.99), "ms");
  report.check("done_p50", median(ends), "ms to `done` visible", "atMost", 10);
  report.figure("done_p99", quantile(ends, 0.99), "ms");
  const unit = "times the slowest tenth of raw commits";
  report.check("start_p99_to_raw", quantile(starts, 0.99) / raw, unit, "atMost", RAW_TARGET);
  report.check("done_p99_to_raw", quantile(ends, 0.99) / raw, unit, "atMost", RAW_TARGET);
}

interface InsertsOptions {
  count: number;
  spacingMs: number;
  /** Runs half-way between two inserts. */
  between: () => Promise<unknown>;
}

async function measureInserts(
  client: Client,
  watcher: Watcher,
  { count, spacingMs, between }: InsertsOptions,
): Promise<Times[]> {
  const calledAtMs = new Map<number, number>();
  for (let n = 0; n < count; n++) {
    const callMs = nowMs();
    const { id } = await client.insert(stamped, { state: { n } });
    calledAtMs.set(id, callMs);
    await sleep(spacingMs / 2);
    await between();
    await sleep(spacingMs / 2);
  }
  const times: Times[] = [];
  for (const [id, callMs] of calledAtMs) {
    const { startedAtMs, atMs } = await until(() => watcher.seen.get(id), {
      timeoutMs: DONE_TIMEOUT_MS,
      describe: `instance ${id} is done`,
    });
    times.push({ startMs: startedAtMs - callMs, doneMs: atMs - callMs });
  }
  return times;
}

/** Makes a table, and returns what commits one row into it and tells how long that took. */
async function rawCommits(database: TestDatabase): Promise<() => Promise<number>> {
  await database.query("CREATE TABLE public.bench_raw (n int)");
  const session = await database.session();
  return async () => {
    const startMs = performance.now();
    await session.query({ name: "raw", text: "INSERT INTO public.bench_raw VALUES (1)" });
    return performance.now() - startMs;
  };
}

async function measureDelayed(
  client: Client,
  database: TestDatabase,
  count: number,
  report: Report,
): Promise<void> {
  const inserted = await client.insertMany(
    stamped,
    Array.from({ length: count }, (_, n) => ({
      state: { n },
      delayMs: DELAYED_FROM_MS + Math.random() * (DELAYED_WITHIN_MS - DELAYED_FROM_MS),
    })),
  );
  const lateness = await latenessOf(
    database,
    inserted.map((answer) => answer.id),
    DONE_TIMEOUT_MS,
  );
  report.check("delayed_lateness_p50", median(lateness), "ms after its time", "atMost", 50);
  report.figure("delayed_lateness_p99", quantile(lateness, 0.99), "ms");
}

/** Waits for `stamped` instances to end; how long after its time each began, milliseconds. */
export async function latenessOf(
  database: TestDatabase,
  ids: readonly number[],
  timeoutMs: number,
): Promise<number[]> {
  await until(
    async () =>
      (
        await database.query("SELECT 1 FROM gen_durable WHERE id = ANY ($1) AND status <> 'done' LIMIT 1", [
          ids,
        ])
      ).length === 0,
    { timeoutMs, everyMs: 500, describe: "all delayed instances are done" },
  );
  const rows = await database.query<{ lateness: number }>(
    `SELECT CAST(result->>'startedAtMs' AS float8) - CAST(extract(epoch FROM eligible_at) * 1000 AS float8) AS lateness
     FROM gen_durable WHERE id = ANY ($1)`,
    [ids],
  );
  return rows.map((row) => row.lateness);
}
