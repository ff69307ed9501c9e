// Limited claim: what a pick under limits is asked for, and what it answers.

import type { ClaimedRow } from "#core/protocol/row.js";
import type { KnownDefinitions, Place } from "./claim.js";
import type { Denial } from "./limiter/limiter.js";
import type { PlentyAnswer } from "./limiter/plenty.js";

export interface LimitedRequest {
  queue: string;
  /** `<node>/<pick>`, never used before. */
  claim: string;
  rowsMax: number;
  /** Rows to look at, at most; more than `rowsMax`, since not every row may be claimed. */
  windowRows: number;
  leaseTtlMs: number;
  known: KnownDefinitions;
  /** Where to go on, a place a priority; priorities that are not named are looked at from their starts. */
  places: readonly Place[];
  /** Keys that are known to be full or busy: their rows are left out. */
  excluded: { keys: readonly string[]; rates: readonly string[] };
  /** Concurrency keys that may have become free: their first rows are looked up, wherever they stand. */
  probes: readonly string[];
  /** CM4. */
  isPlenty?: boolean;
  /** Which rows are due; null: by the database's clock. */
  asOf?: Date | null;
  bytesMax?: number;
  /** Ids to leave out. */
  without?: readonly number[];
}

/** A row of a rate limit that nobody has configured. */
export interface UnknownRate {
  key: string;
  fsm: string;
  step: string;
}

export interface LimitedClaim {
  rows: ClaimedRow[];
  /** The concurrency key of each row, in the order of `rows`. */
  keys: (string | null)[];
  reached: Place[];
  /** Rows that were looked at; fewer than the window: the queue has no more from these places on. */
  seen: number;
  /** Rows that could have been claimed were left: there were more than asked for. */
  isCut: boolean;
  /** Whether rows with limits were met. */
  isLimited: boolean;
  plenty: PlentyAnswer;
  denials: Denial[];
  /** Unconfigured keys of which a row executes, or of which one was claimed while others wait behind it. */
  busyKeys: string[];
  /** Probed gates of which not every row was looked at. */
  moreKeys: string[];
  unknown: UnknownRate[];
}
