// SentLane: the rows of one queue that were sent to one thread and may not have begun, in the order in which it begins them.
//
// L1  A thread begins the rows of a queue in order, so those that have not begun are the end of the lane: what the
//     ledger says about the first of them is enough to know them all, at the price of one look a row.

import type { Ledger } from "#core/ledger.js";
import type { HeldRow } from "../held.js";

const CUT_AT = 1_024;

export class SentLane {
  readonly #ledger: Ledger;
  #rows: HeldRow[] = [];
  /** The tenancy under which the row was sent; a row that was taken back has a later one. */
  #generations: number[] = [];
  #head = 0;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  push(held: HeldRow): void {
    this.#rows.push(held);
    this.#generations.push(held.row.generation);
  }

  /** Rows that have not begun. */
  get unstarted(): number {
    this.#skipBegun();
    return this.#rows.length - this.#head;
  }

  /** When the row that waits longest was sent, or undefined when none waits. */
  get waitsSinceMs(): number | undefined {
    this.#skipBegun();
    return this.#rows[this.#head]?.dispatchedAtMs;
  }

  /** Takes back up to `count` rows, those that wait longest first. Their seats' marks are free afterwards. */
  recall(count: number): HeldRow[] {
    const recalled: HeldRow[] = [];
    while (recalled.length < count) {
      const held = this.#rows[this.#head];
      const generation = this.#generations[this.#head];
      if (held === undefined || generation === undefined) break;
      this.#head++;
      if (this.#ledger.recall(held.row.seat, generation)) recalled.push(held);
    }
    this.#cut();
    return recalled;
  }

  clear(): void {
    this.#rows = [];
    this.#generations = [];
    this.#head = 0;
  }

  /** L1. */
  #skipBegun(): void {
    for (; this.#head < this.#rows.length; this.#head++) {
      const held = this.#rows[this.#head];
      const generation = this.#generations[this.#head];
      if (held === undefined || generation === undefined) break;
      if (this.#ledger.isAssigned(held.row.seat, generation)) break;
    }
    this.#cut();
  }

  #cut(): void {
    if (this.#head === 0) return;
    if (this.#head === this.#rows.length) this.clear();
    else if (this.#head >= CUT_AT) {
      this.#rows.splice(0, this.#head);
      this.#generations.splice(0, this.#head);
      this.#head = 0;
    }
  }
}
