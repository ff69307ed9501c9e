// Cursor: where the last picks of a queue stopped, a place a priority, so that the next one does not wade through the
// rows that were taken since (they stay in the index until no snapshot can see them).
// CU1  A cursor lives CURSOR_LIFE_MS at most: rows that became due behind it wait no longer than that.
// CU2  Only what a pick under load needs: a short pick, a poke or a release drops it.

import type { Place } from "./claim.js";

const CURSOR_LIFE_MS = 100;

export class Cursor {
  readonly #places = new Map<number, Place>();
  #bornAtMs = 0;

  /** The places to resume at, most urgent first; null: look everywhere, from the start. */
  places(nowMs: number): Place[] | null {
    if (this.#places.size > 0 && nowMs - this.#bornAtMs >= CURSOR_LIFE_MS) this.drop();
    if (this.#places.size === 0) return null;
    return [...this.#places.values()].sort((a, b) => a.priority - b.priority);
  }

  advance(reached: readonly Place[], nowMs: number): void {
    if (this.#places.size === 0) this.#bornAtMs = nowMs;
    for (const place of reached) this.#places.set(place.priority, place);
  }

  drop(): void {
    this.#places.clear();
  }
}
