// Lane: the rows of one queue that wait in one thread, first come, first begun.

import type { ClaimedRow } from "#core/protocol/row.js";

/** Begun rows at the front of the array before it is cut; keeps both the shifting and the garbage rare. */
const CUT_AT = 1_024;

export class Lane {
  readonly queue: number;
  /** Permits taken from the ledger and not used by a running row: of rows that have just ended. */
  permitsInHand = 0;
  #rows: ClaimedRow[] = [];
  #head = 0;

  constructor(queue: number) {
    this.queue = queue;
  }

  get length(): number {
    return this.#rows.length - this.#head;
  }

  push(row: ClaimedRow): void {
    this.#rows.push(row);
  }

  shift(): ClaimedRow | undefined {
    const row = this.#rows[this.#head];
    if (row === undefined) return undefined;
    this.#head++;
    if (this.#head === this.#rows.length) {
      this.#rows = [];
      this.#head = 0;
    } else if (this.#head >= CUT_AT) {
      this.#rows.splice(0, this.#head);
      this.#head = 0;
    }
    return row;
  }
}
