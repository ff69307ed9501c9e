// Collector: deletes instances that ended longer ago than the retention, in batches; reconciles the counters of limits.
// C1  A sweep repeats until a batch comes back short, and takes at most a fifth of the time: after each batch it rests.
// C2  Children that a parent may still look at are spared (the statement's rule).

import { setTimeout as delay } from "node:timers/promises";
import type { Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import { pauseAt } from "#core/pausePoint.js";
import type { Database } from "./database.js";
import { Duty } from "./duty.js";
import { reconcileGates, sweepRates } from "./limiter/sweep.js";
import type { Report } from "./report.js";

/** C1: a batch that took t rests for 4t. */
const REST_FACTOR = 4;
const RETRY_MS = 5_000;

export interface CollectorOptions {
  intervalMs: number;
  retentionMs: number;
  batch: number;
  database: Database;
  report: Report;
}

export class Collector {
  readonly #options: CollectorOptions;
  readonly #duty: Duty;
  readonly #abort = new AbortController();

  constructor(options: CollectorOptions) {
    this.#options = options;
    this.#duty = new Duty({
      name: "collecting ended instances",
      report: options.report,
      retryMs: RETRY_MS,
      run: () => this.#sweep(),
    });
  }

  start(): void {
    this.#duty.start(this.#options.intervalMs);
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#duty.stop();
  }

  async #sweep(): Promise<number> {
    const { database, retentionMs, batch, report, intervalMs } = this.#options;
    let rows = 0;
    let from: string | null = null;
    for (;;) {
      const startedAtMs = performance.now();
      const collected: Collected = await database.run("sweeper", (connection) =>
        collectBatch(connection, database.statements, { retentionMs, batch, from }),
      );
      rows += collected.rows;
      from = collected.endedAt;
      if (collected.isShort || this.#abort.signal.aborted) break;
      const restMs = (performance.now() - startedAtMs) * REST_FACTOR;
      await delay(restMs, undefined, { signal: this.#abort.signal }).catch(() => undefined);
    }
    const limits = await database.run("sweeper", async (connection) => ({
      ...(await reconcileGates(connection, database.statements)),
      buckets: await sweepRates(connection, database.statements),
    }));
    report.event("sweep", { rows, ...limits });
    if (limits.healed > 0)
      report.log("info", "counters of gates were set to what executes", { counters: limits.healed });
    return intervalMs;
  }
}

export interface Collected {
  rows: number;
  /** Whether fewer rows than a batch were found: the sweep is over. */
  isShort: boolean;
  /** Where the batch ended; the next one goes on from there. */
  endedAt: string | null;
}

/** Deletes one batch. Plain, over a connection. */
export async function collectBatch(
  connection: Connection,
  statements: Statements,
  options: { retentionMs: number; batch: number; from: string | null },
): Promise<Collected> {
  const found = await connection.run<{ id: number; ended_at: string }>(
    statements.get("collector/find_collectable"),
    [options.retentionMs, options.batch, options.from],
  );
  if (found.length === 0) return { rows: 0, isShort: true, endedAt: options.from };
  await pauseAt("collect.found");
  const [deleted] = await connection.run<{ rows: number }>(statements.get("collector/delete_instances"), [
    found.map(({ id }) => id),
  ]);
  return {
    rows: deleted?.rows ?? 0,
    isShort: found.length < options.batch,
    endedAt: found.at(-1)?.ended_at ?? options.from,
  };
}
