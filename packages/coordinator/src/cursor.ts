// Cursor: where the picks of a queue stopped, a place a priority, so that the next ones do not wade through the rows that were
// taken since: their entries stay in the index until a vacuum.
// CU1  The run: while picks bring all that they ask for, the next one goes on at the very place, for RUN_MS at most. A short
//      pick or a poke ends it.
// CU2  The trail: where looks from the start have become dear, picks begin MARGIN_MS before the place. That finds what was
//      inserted since, by transactions that began earlier than others too.
// CU3  Looks from the start take a WHOLE_SHARE of the time, and none is put off longer than WHOLE_DELAY_MS_MAX: so long may
//      a row wait that came up behind the trail: given back by another node, or inserted by a longer transaction. Where they are cheap, every search is one.

import type { Place } from "./claim.js";

const RUN_MS = 100;
const MARGIN_MS = 1_000;
const WHOLE_SHARE = 1 / 8;
const WHOLE_DELAY_MS_MAX = 1_000;
/** What a look from the start may take: so much, and so much for each row that it brings. */
const CHEAP_MS = 5;
const CHEAP_ROW_MS = 0.1;
/** A slow look is blamed on the index only where so many rows were taken since a cheap one. */
const DEAR_ROWS_MIN = 2_000;
/** What a priority left in the index is gone by then, or its rows are no longer taken. */
const FORGET_MS = 60_000;
const PLACES_MAX = 64;

/** How a pick looks: at all there is, from a little before the places, or on from them. */
export interface Look {
  kind: "whole" | "trail" | "run";
  places: readonly Place[];
  marginMs: number;
  beganAtMs: number;
}

export class Cursor {
  readonly #places = new Map<number, { place: Place; seenAtMs: number }>();
  /** When the run began; null: there is none. */
  #runSinceMs: number | null = null;
  /** Rows taken since a look from the start was cheap. */
  #taken = 0;
  #wholeDueAtMs = Number.NEGATIVE_INFINITY;
  /** A search has ended without a look from the start. */
  #owesWhole = false;

  /** How the next pick is to look. */
  look(nowMs: number): Look {
    if (this.#runSinceMs !== null && nowMs - this.#runSinceMs >= RUN_MS) this.#runSinceMs = null;
    if (this.#runSinceMs !== null) return this.#from("run", 0, nowMs);
    if (nowMs >= this.#wholeDueAtMs || this.#places.size === 0)
      return { kind: "whole", places: [], marginMs: 0, beganAtMs: nowMs };
    return this.#from("trail", MARGIN_MS, nowMs);
  }

  /** Takes in what a pick brought. Returns whether the search is over: nothing more can start now, or be found yet. */
  tell(
    look: Look,
    claim: { reached: readonly Place[]; isShort: boolean; count: number },
    nowMs: number,
  ): boolean {
    this.#keep(claim.reached, nowMs);
    this.#taken += claim.count;
    if (look.kind === "whole") this.#judge(nowMs - look.beganAtMs, claim.count, nowMs);
    if (!claim.isShort) {
      this.#runSinceMs ??= nowMs;
      return false;
    }
    this.#runSinceMs = null;
    // Past the place of a run there may be rows right behind it.
    if (look.kind === "run") return false;
    this.#owesWhole = look.kind === "trail";
    return look.kind === "whole" || nowMs < this.#wholeDueAtMs;
  }

  /** When to look from the start although nobody has said anything. */
  get nextAtMs(): number {
    return this.#owesWhole ? this.#wholeDueAtMs : Number.POSITIVE_INFINITY;
  }

  /** Something has come up: the next pick does not go on where the last one stopped. */
  poke(): void {
    this.#runSinceMs = null;
  }

  /** The next look is from the start. */
  forget(): void {
    this.#runSinceMs = null;
    this.#owesWhole = false;
    this.#wholeDueAtMs = Number.NEGATIVE_INFINITY;
  }

  #from(kind: "trail" | "run", marginMs: number, nowMs: number): Look {
    return { kind, places: [...this.#places.values()].map(({ place }) => place), marginMs, beganAtMs: nowMs };
  }

  /** CU3. */
  #judge(tookMs: number, count: number, nowMs: number): void {
    const isCheap = tookMs <= CHEAP_MS + CHEAP_ROW_MS * count;
    if (isCheap) this.#taken = 0;
    const isDear = !isCheap && this.#taken >= DEAR_ROWS_MIN;
    this.#wholeDueAtMs = isDear ? nowMs + Math.min(tookMs / WHOLE_SHARE, WHOLE_DELAY_MS_MAX) : nowMs;
    this.#owesWhole = false;
  }

  #keep(reached: readonly Place[], nowMs: number): void {
    for (const place of reached) {
      // Deleted first, so that the map is in the order in which they were last seen.
      this.#places.delete(place.priority);
      this.#places.set(place.priority, { place, seenAtMs: nowMs });
    }
    for (const [priority, { seenAtMs }] of this.#places) {
      if (this.#places.size <= PLACES_MAX && nowMs - seenAtMs < FORGET_MS) break;
      this.#places.delete(priority);
    }
  }
}
