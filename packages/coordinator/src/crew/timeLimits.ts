// TimeLimits: which steps have a time limit, as their definitions say.

import type { CatalogueEntry } from "#core/protocol/executor.js";
import type { ClaimedRow } from "#core/protocol/row.js";

export class TimeLimits {
  readonly #byFsm = new Map<string, Map<number, Map<string, number>>>();

  learn(catalogue: readonly CatalogueEntry[]): void {
    for (const { name, version, steps } of catalogue) {
      for (const { name: step, timeoutMs } of steps) {
        if (timeoutMs === null) continue;
        const versions = this.#byFsm.get(name) ?? new Map<number, Map<string, number>>();
        const limits = versions.get(version) ?? new Map<string, number>();
        this.#byFsm.set(name, versions.set(version, limits.set(step, timeoutMs)));
      }
    }
  }

  /** Milliseconds, or null where the row's step has no limit. */
  of(row: ClaimedRow): number | null {
    if (this.#byFsm.size === 0) return null;
    return this.#byFsm.get(row.fsm)?.get(row.version)?.get(row.step) ?? null;
  }
}
