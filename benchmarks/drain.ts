// drain: one-step instances through a whole node, against the raw-SQL ceiling of the same run.
// Machine:  printed; Postgres and node share it. fsync and synchronous_commit are on.
// Settings: one node, queue concurrency 1,000, one flusher, batches of at most 1,000, far polls.
// Method:   a warm-up, then rounds; each round inserts the rows, times the ceiling on them, inserts them again in the
//           node's database, and times the node from that commit to its last commit, both by the database's clock.
//           Ceiling and node alternate, so that what else the machine does meets both. Medians over the rounds.

import { pokeChannel } from "#core/poke.js";
import type { TestDatabase } from "../test/support/database.js";
import { until } from "../test/support/until.js";
import type { Benchmark } from "./bench.js";
import { measureCeiling } from "./ceiling.js";
import { median } from "./report.js";

const DRAIN_TIMEOUT_MS = 300_000;
/** Rows a statement of the bulk insert. */
const INSERT_ROWS = 10_000;

export const drain: Benchmark = {
  name: "drain",
  about: "one-step instances through a whole node, against the claim and flush statements alone",
  options: { rows: 100_000, rounds: 3, batch: 1_000, concurrency: 1_000, workers: 1 },
  async run(bench, options, report) {
    const { rows = 0, rounds = 0, batch = 0, concurrency = 0, workers = 0 } = options;
    const raw = await bench.createDatabase("ceiling");
    const whole = await bench.createDatabase("whole_node");
    const config = {
      queues: { bench: concurrency },
      flushers: [{ queues: "all", maxBatch: batch, maxDelayMs: 20 }],
      pollIntervalMs: 60_000,
      maxPollIntervalMs: 60_000,
      gc: false,
    };
    const node = await bench.startNode(whole, config, workers);
    const warmUp = Math.ceil(rows / 5);
    await measureNode(whole, warmUp);
    await measureCeilingOf(raw, warmUp, batch);

    const ceilings: number[] = [];
    const nodes: number[] = [];
    for (let round = 1; round <= rounds; round++) {
      ceilings.push(await measureCeilingOf(raw, rows, batch));
      nodes.push(await measureNode(whole, rows));
      console.log(
        `round ${round}: ceiling ${Math.round(ceilings.at(-1) ?? 0)} rows/s, node ${Math.round(nodes.at(-1) ?? 0)} rows/s`,
      );
    }
    if (node.hasExited) throw new Error(`the node ended early:\n${node.stderr}`);
    const ceiling = median(ceilings);
    const rate = median(nodes);
    report.figure("ceiling", ceiling, "rows/s");
    report.figure("node", rate, "rows/s");
    report.check("drain_ratio", rate / ceiling, "of the ceiling", "atLeast", 0.6);
  },
};

export async function measureCeilingOf(database: TestDatabase, rows: number, batch: number): Promise<number> {
  await database.query("TRUNCATE gen_durable CASCADE");
  await insertRows(database, rows, false);
  return measureCeiling(database, rows, batch);
}

/** Rows a second, from the commit that makes them visible to the last one's end. */
async function measureNode(database: TestDatabase, rows: number): Promise<number> {
  await database.query("TRUNCATE gen_durable CASCADE");
  const startMs = await insertRows(database, rows, true);
  await until(
    async () =>
      (
        await database.query(
          "SELECT 1 FROM gen_durable WHERE queue = 'bench' AND status = 'runnable' LIMIT 1",
        )
      ).length === 0 &&
      (await database.query("SELECT 1 FROM gen_durable WHERE status = 'executing' LIMIT 1")).length === 0,
    { timeoutMs: DRAIN_TIMEOUT_MS, everyMs: 100, describe: "the node has drained the queue" },
  );
  const { done, end_ms: endMs } = await database.one<{ done: number; end_ms: number }>(
    `SELECT count(*) AS done, CAST(extract(epoch FROM max(updated_at)) * 1000 AS float8) AS end_ms
     FROM gen_durable WHERE status = 'done'`,
  );
  if (done !== rows) throw new Error(`${done} of ${rows} instances are done`);
  return rows / ((endMs - startMs) / 1_000);
}

/** Inserts in one transaction and pokes with its commit; returns the database's clock right after, in milliseconds. */
async function insertRows(database: TestDatabase, rows: number, poke: boolean): Promise<number> {
  const session = await database.session();
  try {
    await session.query("BEGIN");
    for (let left = rows; left > 0; left -= INSERT_ROWS)
      await session.query(
        "INSERT INTO gen_durable (fsm, step, queue, state) SELECT 'oneStep', 'only', 'bench', '{\"n\":0}' FROM generate_series(1, $1::int)",
        [Math.min(left, INSERT_ROWS)],
      );
    if (poke) await session.query("SELECT pg_notify($1, 'bench')", [pokeChannel("gen_durable")]);
    await session.query("COMMIT");
    const { rows: clock } = await session.query<{ ms: number }>(
      "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS float8) AS ms",
    );
    return clock[0]?.ms ?? 0;
  } finally {
    await session.end();
  }
}
