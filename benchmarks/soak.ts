// Soak: a backlog that is kept up for as long as told, with the collector at work, and the rate at which it ends.

import { setTimeout as sleep } from "node:timers/promises";
import type { TestDatabase } from "../test/support/database.js";
import { insertBacklog, TUNED } from "./backlog.js";
import type { Bench } from "./bench.js";
import { median, type Report } from "./report.js";
import { residentMb } from "./usage.js";

const GC = { intervalMs: 1_000, retentionMs: 10_000, batch: 10_000 };
/** Chunks of the backlog: one comes in when one has ended. */
const CHUNKS = 5;
/** A chunk that has not ended by then never will. */
const CHUNK_TIMEOUT_MS = 120_000;
/** Of all chunks, left out at the beginning: the node and its plans warm up. */
const WARM_UP_CHUNKS = 2 * CHUNKS;

export interface SoakOptions {
  seconds: number;
  backlogRows: number;
  workers: number;
}

export async function measureSoak(
  bench: Bench,
  { seconds, backlogRows, workers }: SoakOptions,
  report: Report,
): Promise<void> {
  const database = await bench.createDatabase("soak");
  const node = await bench.startNode(database, { ...TUNED, gc: GC }, workers);
  const rows = Math.ceil(backlogRows / CHUNKS);
  const lastIds: number[] = [];
  const insert = async (): Promise<void> =>
    void lastIds.push((await insertBacklog(database, { rows })).lastId);
  for (let chunk = 0; chunk < CHUNKS; chunk++) await insert();
  const endedAtMs: number[] = [];
  const startMs = performance.now();
  while (performance.now() - startMs < seconds * 1_000 || endedAtMs.length < WARM_UP_CHUNKS + 5) {
    await untilEnded(database, lastIds.shift() ?? 0);
    endedAtMs.push(performance.now());
    await insert();
  }
  if (node.hasExited) throw new Error(`the node ended early:\n${node.stderr.slice(-4_000)}`);
  const { rows: tableRows } = await database.one<{ rows: number }>(
    "SELECT count(*) AS rows FROM gen_durable",
  );
  const { mb } = await database.one<{ mb: number }>(
    "SELECT CAST(pg_total_relation_size('gen_durable') AS float8) / 1048576 AS mb",
  );
  const resident = residentMb(node.pid);
  await node.stop();
  const counted = endedAtMs.slice(WARM_UP_CHUNKS);
  const rates = counted.slice(1).map((atMs, n) => rows / ((atMs - (counted[n] ?? 0)) / 1_000));
  const fifth = Math.max(1, Math.floor(rates.length / 5));
  const first = median(rates.slice(0, fifth));
  const last = median(rates.slice(-fifth));
  report.figure("soak_first_fifth", first, "rows/s");
  report.figure("soak_last_fifth", last, "rows/s");
  report.figure("soak_table", mb, `MiB with indexes, ${tableRows} rows at the end`);
  report.figure("soak_resident", resident, "MiB of the node at the end");
  report.check("soak_ratio", last / first, "of the rate at the start", "atLeast", 0.9);
}

/** Resolves when a row has ended, or is gone with the collector. */
async function untilEnded(database: TestDatabase, id: number): Promise<void> {
  const endsAtMs = performance.now() + CHUNK_TIMEOUT_MS;
  for (;;) {
    const live = await database.query(
      "SELECT 1 FROM gen_durable WHERE id = $1 AND status NOT IN ('done', 'failed')",
      [id],
    );
    if (live.length === 0) return;
    if (performance.now() > endsAtMs) throw new Error(`instance ${id} has not ended`);
    await sleep(5);
  }
}
