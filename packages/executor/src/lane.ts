// Lane: the rows of one queue that wait in one thread, first come, first begun; and the chains of the queue whose next steps
// are ready. A chain goes first, unless a row waits that is more urgent.

import type { ClaimedRow } from "#core/protocol/row.js";
import type { Chain } from "./chains.js";
import { Fifo } from "./fifo.js";

export class Lane {
  readonly queue: number;
  /** Permits taken from the ledger and not used by a running row: of rows that have just ended. */
  permitsInHand = 0;
  readonly #rows = new Fifo<ClaimedRow>();
  readonly #chains = new Fifo<Chain>();
  /** Rows of more than one priority may wait: the first one does not speak for all. */
  #isMixed = false;

  constructor(queue: number) {
    this.queue = queue;
  }

  get length(): number {
    return this.#rows.length + this.#chains.length;
  }

  push(row: ClaimedRow): void {
    const { first } = this.#rows;
    if (first === undefined) this.#isMixed = false;
    else if (first.priority !== row.priority) this.#isMixed = true;
    this.#rows.push(row);
  }

  pushChain(chain: Chain): void {
    this.#chains.push(chain);
  }

  /** The chain that is to begin now, or undefined: then a row is. */
  shiftChain(): Chain | undefined {
    const { first } = this.#chains;
    if (first === undefined || this.#isMoreUrgentThan(first.row.priority)) return undefined;
    return this.#chains.shift();
  }

  shift(): ClaimedRow | undefined {
    return this.#rows.shift();
  }

  /** Whether some waiting row is. Rows begin in order, so those before it begin first. */
  #isMoreUrgentThan(priority: number): boolean {
    const { first } = this.#rows;
    if (first === undefined) return false;
    return this.#isMixed ? this.#rows.some((row) => row.priority < priority) : first.priority < priority;
  }
}
