// Afterlook: looks again a few times after a search that found work, while pokes come in a stream. Rows that come close behind
// each other share their pokes; without it those in between would wait for the poke that the window holds back.
// AL1  A lone poke is answered by one search: only pokes that keep coming from elsewhere begin a series.
// AL2  The looks are few and further and further apart: a search that found nothing is followed by none once they are spent.
// AL3  Every search that finds something begins the series anew.

/** Milliseconds from the search's end to each look: together they bridge the longest window of a poke. */
const DELAYS_MS = [10, 20, 40, 40];
/** So many pokes within so long are a stream: no further apart than a long window and its slack. */
const STREAM_POKES = 3;
const STREAM_MS = 350;

export class Afterlook {
  readonly #look: () => void;
  #timer: NodeJS.Timeout | undefined;
  #spent = DELAYS_MS.length;
  /** When the last pokes came, oldest first. */
  #toldAtMs: number[] = [];

  constructor(look: () => void) {
    this.#look = look;
  }

  /** A poke came from elsewhere. */
  told(nowMs: number): void {
    this.#toldAtMs.push(nowMs);
    if (this.#toldAtMs.length > STREAM_POKES) this.#toldAtMs.shift();
  }

  /** A search has ended: there is nothing more to be had for now. */
  searchEnded(found: number, nowMs: number): void {
    clearTimeout(this.#timer);
    if (found > 0) this.#spent = this.#isStream(nowMs) ? 0 : DELAYS_MS.length;
    const delayMs = DELAYS_MS[this.#spent++];
    if (delayMs !== undefined) this.#timer = setTimeout(this.#look, delayMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #isStream(nowMs: number): boolean {
    const [oldest] = this.#toldAtMs;
    return this.#toldAtMs.length === STREAM_POKES && oldest !== undefined && nowMs - oldest < STREAM_MS;
  }
}
