// Backlog: one-step instances that are inserted in one transaction, and the time that nodes take to end them all.

import { pokeChannel } from "#core/poke.js";
import type { TestDatabase } from "../test/support/database.js";
import type { NodeProcess } from "../test/support/node.js";
import { until } from "../test/support/until.js";
import type { Bench } from "./bench.js";
import { cpuMicroseconds } from "./usage.js";

const DRAIN_TIMEOUT_MS = 600_000;
/** Rows a statement. */
const INSERT_ROWS = 10_000;

/** One node that is told to be fast: as many steps at once as one commit carries, and no poll that could help. */
export const TUNED = {
  queues: { bench: 1_000 },
  flushers: [{ queues: "all", maxBatch: 1_000, maxDelayMs: 20 }],
  pollIntervalMs: 60_000,
  maxPollIntervalMs: 60_000,
  gc: false,
};

export interface BacklogOptions {
  rows: number;
  queue?: string;
  /** Tells the nodes with the commit; true unless given. */
  poke?: boolean;
}

export interface Backlog {
  /** The database's clock right after the commit, milliseconds. */
  startMs: number;
  /** The last row in the order of picks. */
  lastId: number;
}

export interface Drained {
  /** Instances a second, from the commit that made them visible to the last flush, by the database's clock. */
  rate: number;
  /** CPU a job of all the nodes together, and of the server. */
  nodeCpu: number;
  serverCpu: number;
}

/** Inserts in one transaction, server-side, and pokes with its commit. */
export async function insertBacklog(
  database: TestDatabase,
  { rows, queue = "bench", poke = true }: BacklogOptions,
): Promise<Backlog> {
  const session = await database.session();
  try {
    await session.query("BEGIN");
    for (let left = rows; left > 0; left -= INSERT_ROWS)
      await session.query(
        "INSERT INTO gen_durable (fsm, step, queue, state) SELECT 'oneStep', 'only', $2, '{\"n\":0}' FROM generate_series(1, $1::int)",
        [Math.min(left, INSERT_ROWS), queue],
      );
    if (poke) await session.query("SELECT pg_notify($1, $2)", [pokeChannel("gen_durable"), queue]);
    await session.query("COMMIT");
    const answer = await session.query<{ ms: number; last: number }>(
      `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS float8) AS ms, (SELECT max(id) FROM gen_durable) AS last`,
    );
    const [row] = answer.rows;
    return { startMs: row?.ms ?? 0, lastId: row?.last ?? 0 };
  } finally {
    await session.end();
  }
}

/** Resolves when everything up to this row has ended. Looks at one row until that one has: a look at all wades through the dead. */
export async function untilDrained(database: TestDatabase, lastId: number): Promise<void> {
  const options = { timeoutMs: DRAIN_TIMEOUT_MS, describe: "the nodes have drained the queue" };
  const hasEnded = async (): Promise<boolean> =>
    (
      await database.query("SELECT 1 FROM gen_durable WHERE id = $1 AND status NOT IN ('done', 'failed')", [
        lastId,
      ])
    ).length === 0;
  await until(hasEnded, { ...options, everyMs: 20 });
  const areEnded = async (): Promise<boolean> =>
    (
      await database.query(
        "SELECT 1 FROM gen_durable WHERE id <= $1 AND (status = 'runnable' OR status = 'executing') LIMIT 1",
        [lastId],
      )
    ).length === 0;
  await until(areEnded, { ...options, everyMs: 50 });
}

/** Empties the table, inserts a backlog, and times the nodes that serve its queue. */
export async function measureDrain(
  bench: Bench,
  database: TestDatabase,
  nodes: readonly NodeProcess[],
  options: BacklogOptions,
): Promise<Drained> {
  await emptyTable(database);
  const { startMs, lastId } = await insertBacklog(database, options);
  const serverBefore = cpuMicroseconds(bench.serverPid);
  const nodesBefore = sum(nodes.map((node) => cpuMicroseconds(node.pid)));
  await untilDrained(database, lastId);
  const nodeCpu = (sum(nodes.map((node) => cpuMicroseconds(node.pid))) - nodesBefore) / options.rows;
  const serverCpu = (cpuMicroseconds(bench.serverPid) - serverBefore) / options.rows;
  const { done, end_ms: endMs } = await database.one<{ done: number; end_ms: number }>(
    `SELECT count(*) AS done, CAST(extract(epoch FROM max(updated_at)) * 1000 AS float8) AS end_ms
     FROM gen_durable WHERE status = 'done'`,
  );
  if (done !== options.rows) throw new Error(`${done} of ${options.rows} instances are done`);
  for (const node of nodes)
    if (node.hasExited) throw new Error(`the node ended early:\n${node.stderr.slice(-4_000)}`);
  return { rate: options.rows / ((endMs - startMs) / 1_000), nodeCpu, serverCpu };
}

/** A table without rows, and a server without dirty pages: every measurement begins alike. */
export async function emptyTable(database: TestDatabase): Promise<void> {
  await database.query("TRUNCATE gen_durable CASCADE");
  await database.query("CHECKPOINT");
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
