// latency: how soon an idle node starts and finishes what another process inserts, how late delayed instances start, and
// what an idle node asks of the database.
// Machine:  printed; Postgres, node and caller share it. fsync and synchronous_commit are on.
// Settings: the defaults of a node, with one queue.
// Method:   20 warm-up inserts, then one every 120 ms, and for comparison one every 20 ms. The insert call's beginning is taken in this process and the step's
//           beginning in the node, both from the machine's clock. `done` is seen by a third connection through a trigger
//           that notifies, hence after the commit. Delayed instances are inserted together, due at random within two
//           seconds; lateness is their step's beginning after `eligible_at`. Idle queries are counted in the server's log.

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "gen-durable";
import type pg from "pg";
import type { TestDatabase } from "../test/support/database.js";
import { until } from "../test/support/until.js";
import type { Bench, Benchmark } from "./bench.js";
import { stamped } from "./fsms/bench.js";
import { median, quantile, type Report } from "./report.js";

const WARM_UP = 20;
/** Further apart than the window in which a client's pokes are coalesced: the node is idle at each insert. */
const SPACING_MS = 120;
/** Inserts that follow each other closely share their pokes; shown without a target. */
const CLOSE_SPACING_MS = 20;
const DELAYED_WITHIN_MS = 2_000;
const DELAYED_FROM_MS = 300;
/** About one a queue, and about one of the node's own: its heartbeat every 2 s, its looks at other nodes and at due rows. */
const IDLE_TARGET = 2;
const DONE_TIMEOUT_MS = 30_000;

export const latency: Benchmark = {
  name: "latency",
  about: "from an insert in another process to the step's start and to `done`; timers; idle queries",
  options: { inserts: 200, delayed: 200, idleSeconds: 20, workers: 1 },
  async run(bench, options, report) {
    const { inserts = 0, delayed = 0, idleSeconds = 0, workers = 0 } = options;
    const database = await bench.createDatabase("latency");
    const watcher = await watchDone(database);
    const client = createClient({ url: database.url });
    const node = await bench.startNode(database, { queues: { bench: 10 } }, workers);
    await measureInserts(client, watcher, WARM_UP, SPACING_MS);
    const times = await measureInserts(client, watcher, inserts, SPACING_MS);
    const close = await measureInserts(client, watcher, inserts, CLOSE_SPACING_MS);
    const starts = times.map((time) => time.startMs);
    const ends = times.map((time) => time.doneMs);
    report.check("start_p50", median(starts), "ms to the step's start", "atMost", 5);
    report.figure("start_p99", quantile(starts, 0.99), "ms");
    report.check("done_p50", median(ends), "ms to `done` visible", "atMost", 10);
    report.figure("done_p99", quantile(ends, 0.99), "ms");
    report.figure("close_start_p50", median(close.map((time) => time.startMs)), "ms, one insert every 20 ms");
    await measureDelayed(client, database, delayed, report);
    await client.close();
    await database.query("DROP TRIGGER bench_done ON gen_durable");
    await node.stop();
    await measureIdle(bench, idleSeconds, workers, report);
  },
};

type Client = ReturnType<typeof createClient>;
type Seen = { result: { startedAtMs: number }; atMs: number };

async function measureInserts(client: Client, watcher: Watcher, count: number, spacingMs: number) {
  const calledAtMs = new Map<number, number>();
  for (let n = 0; n < count; n++) {
    const callMs = nowMs();
    const { id } = await client.insert(stamped, { state: { n } });
    calledAtMs.set(id, callMs);
    await sleep(spacingMs);
  }
  const times: { startMs: number; doneMs: number }[] = [];
  for (const [id, callMs] of calledAtMs) {
    const { result, atMs } = await until(() => watcher.seen.get(id), {
      timeoutMs: DONE_TIMEOUT_MS,
      describe: `instance ${id} is done`,
    });
    times.push({ startMs: result.startedAtMs - callMs, doneMs: atMs - callMs });
  }
  return times;
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
  const ids = inserted.map((answer) => answer.id);
  const rows = await until(
    async () => {
      const done = await database.query<{ lateness: number }>(
        `SELECT CAST(result->>'startedAtMs' AS float8) - CAST(extract(epoch FROM eligible_at) * 1000 AS float8) AS lateness
         FROM gen_durable WHERE id = ANY ($1) AND status = 'done'`,
        [ids],
      );
      return done.length === count && done;
    },
    { timeoutMs: DONE_TIMEOUT_MS, everyMs: 200, describe: "all delayed instances are done" },
  );
  const lateness = rows.map((row) => row.lateness);
  report.check("delayed_lateness_p50", median(lateness), "ms after its time", "atMost", 50);
  report.figure("delayed_lateness_p99", quantile(lateness, 0.99), "ms");
}

/** Counts what a node sends while it has nothing to do, once its polls have backed off. */
async function measureIdle(bench: Bench, seconds: number, workers: number, report: Report): Promise<void> {
  const database = await bench.createDatabase("idle");
  await database.query(`ALTER DATABASE ${database.name} SET log_statement = 'all'`);
  const node = await bench.startNode(database, { queues: { bench: 10 } }, workers);
  await sleep(seconds * 500);
  const before = engineStatements(bench, database);
  await sleep(seconds * 1_000);
  const statements = engineStatements(bench, database).slice(before.length);
  await node.stop();
  const counts = new Map<string, number>();
  for (const statement of statements) counts.set(statement, (counts.get(statement) ?? 0) + 1);
  for (const [statement, count] of [...counts].sort(([, a], [, b]) => b - a))
    console.log(`  ${statement}: ${(count / seconds).toFixed(2)} a second`);
  report.check(
    "idle_queries_per_second",
    statements.length / seconds,
    "queries a second",
    "atMost",
    IDLE_TARGET,
  );
}

/** Session and name of each statement that the engine has sent to a database. */
function engineStatements(bench: Bench, database: TestDatabase): string[] {
  const pattern = new RegExp(
    `\\] (gen-durable [^@]*)@${database.name} LOG: {2}(?:statement: (.{0,20})|execute (.*?)_[0-9a-f]{12}: )`,
  );
  return bench.log.split("\n").flatMap((line) => {
    const match = pattern.exec(line);
    return match === null ? [] : [`${match[1]}, ${match[3] ?? match[2]}`];
  });
}

interface Watcher {
  seen: Map<number, Seen>;
  session: pg.Client;
}

/** Notes when each instance's `done` is committed, as a listener hears of it. */
async function watchDone(database: TestDatabase): Promise<Watcher> {
  await database.query(`
    CREATE FUNCTION bench_done() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_notify('bench_done', json_build_object('id', NEW.id, 'result', NEW.result)::text); RETURN NULL; END $$;
    CREATE TRIGGER bench_done AFTER UPDATE ON gen_durable FOR EACH ROW
      WHEN (NEW.status = 'done') EXECUTE FUNCTION bench_done();
  `);
  const session = await database.session();
  const seen = new Map<number, Seen>();
  session.on("notification", ({ payload }) => {
    const { id, result } = JSON.parse(payload ?? "") as { id: number; result: Seen["result"] };
    seen.set(id, { result, atMs: nowMs() });
  });
  await session.query("LISTEN bench_done");
  return { seen, session };
}

function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
