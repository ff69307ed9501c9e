// TimeLimits: which steps have a time limit, as their definitions say. How long it is stands in the ledger, while the step runs.

import type { CatalogueEntry } from "#core/protocol/executor.js";
import type { ClaimedRow } from "#core/protocol/row.js";

export class TimeLimits {
  readonly #byFsm = new Map<string, Map<number, Set<string>>>();

  learn(catalogue: readonly CatalogueEntry[]): void {
    for (const { name, version, steps } of catalogue) {
      const limited = steps.filter(({ timeoutMs }) => timeoutMs !== null).map((step) => step.name);
      if (limited.length === 0) continue;
      const versions = this.#byFsm.get(name) ?? new Map<number, Set<string>>();
      this.#byFsm.set(name, versions.set(version, new Set(limited)));
    }
  }

  /** Whether the row's step has a limit. */
  has(row: ClaimedRow): boolean {
    if (this.#byFsm.size === 0) return false;
    return this.#byFsm.get(row.fsm)?.get(row.version)?.has(row.step) ?? false;
  }
}
