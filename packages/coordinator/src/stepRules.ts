// StepRules: what the picker must know of the definitions' steps.

import type { CatalogueEntry } from "#core/protocol/executor.js";
import type { ClaimedRow } from "#core/protocol/row.js";

export class StepRules {
  readonly #once = new Set<string>();

  constructor(catalogue: readonly CatalogueEntry[]) {
    for (const { name, version, steps } of catalogue) {
      for (const step of steps) {
        if (!step.rerunAfterCrash) this.#once.add(stepKey(name, version, step.name));
      }
    }
  }

  /**
   * Whether it must be on record that the row has begun, before it does: the loss of the whole node tells nothing about
   * which rows had begun. So it is for steps that must not run again, and for suspects, which were lost before: one of
   * them may be what takes the nodes down.
   */
  needsMark(row: ClaimedRow): boolean {
    if (row.reaps > 0 || row.crashes > 0) return true;
    return this.#once.size > 0 && this.#once.has(stepKey(row.fsm, row.version, row.step));
  }
}

function stepKey(fsm: string, version: number, step: string): string {
  return JSON.stringify([fsm, version, step]);
}
