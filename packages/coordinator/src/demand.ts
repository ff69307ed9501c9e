// Demand: how many rows a queue should claim now. Pure: numbers in, a number out.

import { CLAIM_ROWS_MAX } from "./claim.js";

/** Rows of one queue whose steps have ended and wait for their commit: past this the flusher is behind, and more
 *  claims would only queue up in memory. Twenty full default batches. */
export const UNCOMMITTED_ROWS_MAX = 4_096;
/** Bytes of outcomes that wait for one flusher's commit: eight of its largest batches. */
export const UNCOMMITTED_BYTES_MAX = 64 * 1024 * 1024;
/** Rows that one queue holds unstarted at most; others must be able to take them within the blink of a drain. */
export const PREFETCH_ROWS_MAX = 2_000;

export interface DemandFacts {
  /** Steps of the queue at once on this node. */
  concurrency: number;
  /** Slots in which no user code runs. */
  freeSlots: number;
  /** Rows that are held and have not begun. */
  unstarted: number;
  /** Chains of steps that run ahead which wait for a commit or a slot: they come back for one. */
  returning: number;
  /** Rows to hold beside the slots. */
  prefetch: number;
  /** Claim nothing below so many; clamped to what can ever be wanted. */
  minDemand: number;
  /** Free seats of the node. */
  room: number;
  /** Rows of the queue whose steps have ended and are not committed. */
  uncommitted: number;
  /** Bytes that wait in the queue's flusher. */
  uncommittedBytes: number;
}

/** Rows to claim now; 0: do not pick. */
export function demandOf(facts: DemandFacts): number {
  if (facts.uncommittedBytes >= UNCOMMITTED_BYTES_MAX) return 0;
  const wanted = facts.freeSlots + facts.prefetch - facts.unstarted - facts.returning;
  const least = Math.max(1, Math.min(facts.minDemand, facts.concurrency + facts.prefetch));
  if (wanted < least) return 0;
  return Math.max(0, Math.min(wanted, CLAIM_ROWS_MAX, facts.room, UNCOMMITTED_ROWS_MAX - facts.uncommitted));
}
