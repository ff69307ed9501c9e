// Search: where the picks of a queue with limited rows look next. A backlog that cannot start is waded through once in a
// while, in windows, and not by every pick.
// SE1  A place is left behind when everything up to it was claimed, stands in Stalls, or cannot start here. So a key leaves
//      Stalls only when a pick has found all of its rows that it looked for.
// SE2  Rows can come up behind a place (returned rows, late commits); a poke says so. The search begins anew after
//      LIFE_MS_MIN, or later where wading took long: at most a twentieth of the time goes into it. What is picked after the
//      end was reached is no wading: it does not count, or a search with much to do would never begin anew.
// SE3  A concurrency key that is freed is looked up by its index, a rate that has refilled at the front of the queue: neither
//      moves the place.

import type { Place } from "../claim.js";
import type { LimitedClaim } from "../limitedClaim.js";
import { Plenty } from "./plenty.js";
import { Stalls } from "./stalls.js";

const LIFE_MS_MIN = 100;
/** SE2: a search lives so many times as long as it took. */
const LIFE_FACTOR = 20;
/** Rows beyond those wanted that a pick looks at: what other pickers have locked, siblings of a key. */
const WINDOW_SPARE = 200;
/** Freed keys that a pick looks up, where it wants fewer rows. */
const PROBES_MIN = 100;
/** A window that gave little is doubled, up to what a pick looks at in a few milliseconds. */
const WINDOW_MAX = 5_000;
/** Without limited rows for so long, the queue's picks are one statement again. */
const QUIET_MS = 2_000;

/** What one pick is to look at. */
export interface SearchStep {
  beganAtMs: number;
  rowsMax: number;
  windowRows: number;
  places: Place[];
  excluded: { keys: string[]; rates: string[] };
  probes: string[];
  /** Looks at the front only; the place stays (SE3). */
  isPeek: boolean;
  /** Nothing is left out and nothing probed, and the limits had plenty: the pick may claim without looking first. */
  isPlenty: boolean;
}

export class LimitedSearch {
  readonly #stalls = new Stalls();
  readonly #plenty = new Plenty();
  readonly #places = new Map<number, Place>();
  #bornAtMs = 0;
  /** What it took to reach the end. */
  #spentMs = 0;
  #hasReachedEnd = false;
  #windowRows = 0;
  /** Something may have come up behind the place. */
  #isPoked = false;
  #metAtMs: number;
  /** Concurrency keys that were freed while a pick was in flight: what it says of them is old. */
  readonly #freedMeanwhile = new Set<string>();
  #isPicking = false;

  constructor(nowMs: number) {
    this.#metAtMs = nowMs;
  }

  /** When to look again although nobody has said anything. */
  get nextAtMs(): number {
    const anew = this.#isPoked && this.#places.size > 0 ? this.#endsAtMs : Number.POSITIVE_INFINITY;
    return Math.min(anew, this.#stalls.nextDueAtMs);
  }

  /** Whether no limited row was met for a while, and none is waited for. */
  isQuiet(nowMs: number): boolean {
    return this.#stalls.count === 0 && nowMs - this.#metAtMs > QUIET_MS;
  }

  begin(rowsMax: number, nowMs: number): SearchStep {
    if (this.#isPoked && nowMs >= this.#endsAtMs) this.#drop();
    const { excluded, probes, hasDueRate } = this.#stalls.take(nowMs, Math.max(rowsMax, PROBES_MIN));
    const isPeek = hasDueRate && this.#places.size > 0;
    const windowRows = rowsMax + WINDOW_SPARE;
    this.#isPicking = true;
    return {
      beganAtMs: nowMs,
      rowsMax,
      windowRows: isPeek ? windowRows : Math.max(windowRows, this.#windowRows),
      places: isPeek ? [] : [...this.#places.values()],
      excluded,
      probes,
      isPeek,
      isPlenty: this.#plenty.isLikely && this.#stalls.count === 0 && probes.length === 0,
    };
  }

  /** Takes in what a pick found. Returns whether the search is over: nothing more can start now. */
  end(step: SearchStep, claim: LimitedClaim, nowMs: number): boolean {
    if (claim.isLimited) this.#metAtMs = nowMs;
    if (claim.isLimited) this.#plenty.tell(claim.plenty);
    for (const denial of claim.denials) this.#stalls.deny(denial, nowMs);
    for (const key of claim.busyKeys) this.#stalls.busy(key, nowMs);
    const isAll = claim.seen < step.windowRows && !claim.isCut;
    // A peek that did not even meet its rate at the front must not be made for ever: the search begins anew.
    const hasMet = claim.rows.length > 0 || claim.denials.some(({ kind }) => kind === "rate");
    const isVain = step.isPeek && !isAll && !hasMet;
    this.#stalls.settle(step.beganAtMs, claim.isCut || (step.isPeek && !isAll && !isVain), claim.moreKeys);
    if (isVain) this.#drop();
    for (const key of this.#freedMeanwhile) this.#stalls.freed(key, nowMs);
    this.#endPick();

    if (step.isPeek) return isAll;
    if (step.places.length === 0) {
      this.#bornAtMs = step.beganAtMs;
      this.#spentMs = 0;
      if (isAll) {
        // All of the queue is one look: there is no place to keep.
        this.#drop();
        return true;
      }
      this.#hasReachedEnd = false;
    }
    if (!this.#hasReachedEnd) this.#spentMs += nowMs - step.beganAtMs;
    this.#hasReachedEnd ||= isAll;
    for (const place of claim.reached) this.#places.set(place.priority, place);
    if (!isAll) {
      const isPoor = claim.rows.length * 4 < step.rowsMax;
      this.#windowRows = isPoor ? Math.min(step.windowRows * 2, WINDOW_MAX) : 0;
      return false;
    }
    return !(this.#isPoked && nowMs >= this.#endsAtMs);
  }

  /** The pick has failed; what it looked at is looked at again. */
  fail(): void {
    this.#endPick();
  }

  poke(): void {
    this.#isPoked = true;
    this.#stalls.poked();
  }

  /** A row of the concurrency key is no longer held. Returns whether somebody waits for that. */
  freed(key: string, nowMs: number): boolean {
    if (this.#isPicking) this.#freedMeanwhile.add(key);
    return this.#stalls.freed(key, nowMs);
  }

  get #endsAtMs(): number {
    return this.#bornAtMs + Math.max(LIFE_MS_MIN, LIFE_FACTOR * this.#spentMs);
  }

  #endPick(): void {
    this.#isPicking = false;
    this.#freedMeanwhile.clear();
  }

  #drop(): void {
    this.#places.clear();
    this.#spentMs = 0;
    this.#hasReachedEnd = false;
    this.#windowRows = 0;
    this.#isPoked = false;
  }
}
