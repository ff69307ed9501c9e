// Half load: inserts that come at half of the rate a node can drain, whether or not it keeps up, and how long each takes to be done.
// The callers' clock is the schedule: an insert that had to wait for the one before it counts from when it was due.

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "gen-durable";
import type { TestDatabase } from "../test/support/database.js";
import { until } from "../test/support/until.js";
import { measureDrain, TUNED } from "./backlog.js";
import type { Bench } from "./bench.js";
import { oneStep, stamped } from "./fsms/bench.js";
import { quantile, type Report } from "./report.js";
import { watchDone } from "./watchDone.js";

/** Between two inserts of many rows each: a program that inserts thousands a second inserts them so. */
const TICK_MS = 20;
const DONE_TIMEOUT_MS = 60_000;
/** Of each tick's rows, one is watched from its insert to its end. */
const WATCHED_A_TICK = 1;

export interface HalfLoadOptions {
  /** Rows of the drain that says what half is. */
  drainRows: number;
  seconds: number;
  workers: number;
}

export async function measureHalfLoad(
  bench: Bench,
  { drainRows, seconds, workers }: HalfLoadOptions,
  report: Report,
): Promise<void> {
  const database = await bench.createDatabase("half_load");
  const node = await bench.startNode(database, TUNED, workers);
  await measureDrain(bench, database, [node], { rows: Math.ceil(drainRows / 4) });
  const { rate } = await measureDrain(bench, database, [node], { rows: drainRows });
  const watcher = await watchDone(database);
  const rowsATick = Math.max(1, Math.round(((rate / 2) * TICK_MS) / 1_000));
  const lagsMs = await insertOpenLoop(database, watcher.seen, {
    ticks: (seconds * 1_000) / TICK_MS,
    rowsATick,
  });
  await watcher.close();
  await node.stop();
  report.figure("half_load_rate", (rowsATick * 1_000) / TICK_MS, "inserts/s, half of the drain rate");
  report.figure("half_load_done_p50", quantile(lagsMs, 0.5), "ms from when the insert was due to `done`");
  report.check("half_load_done_p99", quantile(lagsMs, 0.99), "ms", "atMost", 100);
}

/** Returns of every watched row how long after its tick it was seen done. */
async function insertOpenLoop(
  database: TestDatabase,
  seen: ReadonlyMap<number, { atMs: number }>,
  { ticks, rowsATick }: { ticks: number; rowsATick: number },
): Promise<number[]> {
  const client = createClient({ url: database.url });
  const dueAtMs = new Map<number, number>();
  const pending: Promise<void>[] = [];
  const batch = Array.from({ length: rowsATick - WATCHED_A_TICK }, (_, n) => ({ state: { n } }));
  const startMs = performance.timeOrigin + performance.now();
  for (let tick = 0; tick < ticks; tick++) {
    const dueMs = startMs + tick * TICK_MS;
    await sleep(Math.max(0, dueMs - (performance.timeOrigin + performance.now())));
    // The watched row comes last: what was inserted with it is ahead of it.
    const inserted = client
      .insertMany(oneStep, batch)
      .then(() => client.insert(stamped, { state: { n: tick } }))
      .then(({ id }) => void dueAtMs.set(id, dueMs));
    pending.push(inserted);
  }
  await Promise.all(pending);
  const lags = await until(
    () =>
      [...dueAtMs.keys()].every((id) => seen.has(id)) &&
      [...dueAtMs].map(([id, dueMs]) => (seen.get(id)?.atMs ?? 0) - dueMs),
    { timeoutMs: DONE_TIMEOUT_MS, everyMs: 50, describe: "all watched instances are done" },
  );
  await client.close();
  return lags;
}
