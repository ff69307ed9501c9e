// Trigger: when the open batch is flushed. Pure.
// T1  Nothing is flushed while a flush runs: what arrives meanwhile is the next batch.
// T2  At `maxBatch` outcomes, at the batch's limit of bytes, or `maxDelayMs` after the first.
// T3  At once when waiting cannot help: no outcome is on its way here.

/** A flush carries so many bytes of outcomes at most, and at least one outcome: one transaction stays a small thing. */
export const BATCH_BYTES_MAX = 8 * 1024 * 1024;

export interface BatchFacts {
  /** Outcomes that wait, and their bytes. */
  count: number;
  bytes: number;
  /** When the first of them arrived. */
  firstAtMs: number;
  /** Outcomes of steps that have returned and that have not arrived yet. */
  onTheWay: number;
}

/** For how long the batch is to wait, milliseconds; 0: flush now; Infinity: there is nothing to flush. */
export function waitMs(
  batch: BatchFacts,
  limits: { maxBatch: number; maxDelayMs: number },
  nowMs: number,
): number {
  if (batch.count === 0) return Number.POSITIVE_INFINITY;
  if (batch.count >= limits.maxBatch || batch.bytes >= BATCH_BYTES_MAX || batch.onTheWay <= 0) return 0;
  return Math.max(0, batch.firstAtMs + limits.maxDelayMs - nowMs);
}
