// Afterlook: looks again a few times after a search that found work. Rows that come close behind each other share their
// pokes; without it those in between would wait for the poke that the window holds back.
// AL1  The looks are few and further and further apart: a search that found nothing is followed by none once they are spent.
// AL2  Every search that finds something begins the series anew.

/** Milliseconds from the search's end to each look: together they bridge the window in which one process pokes once. */
const DELAYS_MS = [10, 20, 40, 40];

export class Afterlook {
  readonly #look: () => void;
  #timer: NodeJS.Timeout | undefined;
  #spent = DELAYS_MS.length;

  constructor(look: () => void) {
    this.#look = look;
  }

  /** A search has ended: there is nothing more to be had for now. */
  searchEnded(found: number): void {
    clearTimeout(this.#timer);
    if (found > 0) this.#spent = 0;
    const delayMs = DELAYS_MS[this.#spent++];
    if (delayMs !== undefined) this.#timer = setTimeout(this.#look, delayMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
