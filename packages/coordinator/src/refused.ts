// Refused: rows that the database would not let this node claim, each found alone (a user's trigger, a value that cannot be
// read). They are left out for a while, so that they hide nothing behind them.

/** Tried again after so long: whoever caused it may have mended it. */
const ASIDE_MS = 30_000;
/** Past this the oldest are tried again early; a claim carries the list. */
const ASIDE_ROWS_MAX = 1_000;

export class Refused {
  /** Until when each is left out, oldest first. */
  readonly #untilMs = new Map<number, number>();

  add(id: number, nowMs: number): void {
    this.#untilMs.set(id, nowMs + ASIDE_MS);
    const [oldest] = this.#untilMs.keys();
    if (this.#untilMs.size > ASIDE_ROWS_MAX && oldest !== undefined) this.#untilMs.delete(oldest);
  }

  /** The ids to leave out now. */
  ids(nowMs: number): number[] {
    for (const [id, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) break;
      this.#untilMs.delete(id);
    }
    return [...this.#untilMs.keys()];
  }
}
