// Limiter: who decides which rows may start under the configured limits. The Postgres one (postgresLimiter.ts) works inside
// the transaction of the pick, so that nothing provisional is ever committed.
// LI1  What is admitted is debited; what is not admitted is not, by neither of its limits.
// LI2  Rows are judged in pick order; within one rate key nobody overtakes, so that a heavy row gets its turn.
// LI3  A slot that is credited once admits exactly one row more.
// LI4  What is owed is debited before the pick commits, or the pick does not commit.

import type { Session } from "#flusher/env.js";

/** The two kinds of limits: how many execute at once, how many start in a time. */
export type LimitKind = "conc" | "rate";

/** A locked row that wants to start, and what limits it. */
export interface Candidate {
  id: number;
  /** The key of its gate; null where it has none (an unconfigured key is no business of a limiter). */
  gate: string | null;
  rate: string | null;
  weight: number;
}

export interface Admitted {
  id: number;
  /** The shard whose slot it holds until it leaves executing; null without a gate. */
  shard: number | null;
}

/** A key of which a row was denied. */
export interface Denial {
  kind: LimitKind;
  key: string;
  /**
   * full: no slot or token is left. busy: somebody else has its counters locked just now. unknown: nobody has configured
   * its limit any more.
   */
  why: "full" | "busy" | "unknown";
  /** When the first denied row can be afforded, where time alone brings that; null: when something is credited. */
  refillInMs: number | null;
  /** How many rows of this pick wanted to start under the key, and how many may. */
  wanted: number;
  granted: number;
}

/** Slots that an admission has promised and not yet taken (LI4). */
export interface OwedSlots {
  key: string;
  shard: number;
  slots: number;
  /** What the shard held in all when it was drawn from. */
  capacity: number;
}

export interface Admission {
  admitted: Admitted[];
  denials: Denial[];
  /** Empty unless the caller has said that it debits what it owes. */
  owed: OwedSlots[];
  /** Every limit that was asked has as much left as was taken: the next pick need not look first. */
  isPlenty: boolean;
}

/** Slots that were promised are gone: somebody else was first. The pick begins anew. */
export class SlotsGone extends Error {
  constructor() {
    super("slots that an admission has promised were taken by another pick");
    this.name = "SlotsGone";
  }
}

export interface Limiter {
  /** Its counters lie beside the rows: picker/claim_plenty.sql may claim and debit in one statement. */
  readonly isBesideRows: boolean;
  /**
   * Decides about rows in pick order, in the open transaction of their pick. With `mayOwe` slots of a gate that has plenty
   * may be promised without holding its counters: the caller debits them last (LI4). @throws what Postgres says when a race
   * for a counter is lost; the pick begins anew then.
   */
  admit(
    session: Session,
    candidates: readonly Candidate[],
    options?: { mayOwe?: boolean },
  ): Promise<Admission>;
  /** Takes what an admission owes, last in the transaction of its pick. @throws SlotsGone */
  debit(session: Session, owed: readonly OwedSlots[]): Promise<void>;
  /** Gives slots back, in the open transaction that frees them, last in it. */
  credit(session: Session, slots: readonly { key: string; shard: number }[]): Promise<void>;
}
