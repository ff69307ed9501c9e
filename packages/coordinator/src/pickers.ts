// Pickers: one a queue, made from the node's settings and what its definitions promise.

import type { Ledger } from "#core/ledger.js";
import type { CatalogueEntry } from "#core/protocol/executor.js";
import type { NodeSettings } from "#core/settings.js";
import { knownDefinitions } from "./catalogue.js";
import type { Database } from "./database.js";
import type { HeldTable } from "./held.js";
import type { Limiter } from "./limiter/limiter.js";
import type { Throttle } from "./limiter/throttle.js";
import { Picker, type Slots } from "./picker.js";
import type { Report } from "./report.js";
import { StepRules } from "./stepRules.js";

export interface PickersOptions {
  settings: NodeSettings;
  flusherOfQueue: readonly number[];
  catalogue: readonly CatalogueEntry[];
  database: Database;
  ledger: Ledger;
  held: HeldTable;
  slots: Slots;
  limiter: Limiter;
  throttle: Throttle;
  report: Report;
  /** Whether what a claim would bring can be committed: the flusher's connection stands. */
  canCommit(flusher: number): boolean;
  /** A name for the next claim: `<node>/<pick>`. */
  nameClaim(): string;
  /** The claim's answer was lost: its rows must be given back. */
  doubt(claim: string): void;
}

/** The pickers in the order of the settings' queues: a picker's index is its queue's index in the ledger. */
export function makePickers(options: PickersOptions): Picker[] {
  const { settings, catalogue, database, ledger, held, slots, report, limiter, throttle, nameClaim, doubt } =
    options;
  const rules = new StepRules(catalogue);
  const known = knownDefinitions(catalogue);
  return Object.entries(settings.queues).map(([queue, concurrency], queueIndex) => {
    const flusher = options.flusherOfQueue[queueIndex] ?? 0;
    return new Picker({
      queue,
      queueIndex,
      flusher,
      concurrency,
      leaseTtlMs: settings.leaseTtlMs,
      pollIntervalMs: settings.pollIntervalMs,
      maxPollIntervalMs: settings.maxPollIntervalMs,
      prefetch: settings.prefetch,
      minDemand: settings.minDemand,
      known,
      rules,
      database,
      limiter,
      throttle,
      keepsSettings: settings.database.prepare,
      ledger,
      held,
      slots,
      report,
      canCommit: () => options.canCommit(flusher),
      nameClaim,
      doubt,
    });
  });
}
