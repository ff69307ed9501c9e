// Reap: returns lost rows to runnable, in batches. Plain, over a connection.
// RP1  Slots of gates are credited in the transaction that frees them, last.
// RP2  A row that cannot go back as it is (its correlation key is taken meanwhile) costs no other row: the batch splits,
//      and the row alone goes back without its identity.
// RP3  The end of a row whose cancel was requested is the cancellation, through the flush, as if its step had ended.

import type { Connection } from "#core/database/connection.js";
import { classifyFailure } from "#core/database/failure.js";
import type { Statements } from "#core/database/statements.js";
import { pauseAt } from "#core/pausePoint.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { ownTransaction } from "#flusher/env.js";
import { flush } from "#flusher/flush.js";
import { creditSlots } from "#flusher/riders.js";
import { slotsOf } from "./release.js";

/** Rows of one transaction; their locks are held for some tens of milliseconds. */
const REAP_ROWS_MAX = 500;
/** Waits that cannot be skipped: another transaction that enters the same correlation key, a bucket of a busy picker. */
const LOCK_TIMEOUT_MS = 500;

export interface ReapOptions {
  /** Return the rows of these nodes; null: rows whose leases have run out. */
  deadNodes: readonly string[] | null;
  leaseTtlMs: number;
  asOf?: Date | null;
}

export interface Reaped {
  /** Rows that went back or were cancelled. */
  count: number;
  cancelled: number;
  queues: string[];
}

interface LostRecord {
  id: number;
  queue: string;
  gate: string | null;
  shard: number | null;
  cancelled: boolean;
  claim: string;
  fsm: string;
  version: number;
  step: string;
  visit: number;
  attempt: number;
  parent_id: number | null;
  parent_visit: number | null;
  [column: string]: unknown;
}

/** Returns every row that qualifies and that nobody has locked. */
export async function reapRows(
  connection: Connection,
  statements: Statements,
  options: ReapOptions,
): Promise<Reaped> {
  const reaped: Reaped = { count: 0, cancelled: 0, queues: [] };
  let limit = REAP_ROWS_MAX;
  let releaseIdentity = false;
  for (;;) {
    try {
      const lost = await returnBatch(connection, statements, { ...options, limit, releaseIdentity });
      const cancelled = lost.filter((row) => row.cancelled);
      const settled = await cancelRows(connection, statements, cancelled, options);
      reaped.count += lost.length - cancelled.length + settled;
      reaped.cancelled += settled;
      reaped.queues = [...new Set([...reaped.queues, ...lost.map((row) => row.queue)])];
      // A batch of nothing but unsettled cancels would be found again at once.
      if (lost.length < limit || (lost.length === cancelled.length && settled === 0)) return reaped;
      limit = Math.min(REAP_ROWS_MAX, limit * 2);
      releaseIdentity = false;
    } catch (error) {
      const failure = classifyFailure(error);
      if (failure !== "constraint" && failure !== "contention") throw error;
      // Halve, until the offender stands alone; then it gives its identity up (RP2).
      if (limit > 1) limit >>= 1;
      else if (!releaseIdentity && failure === "constraint") releaseIdentity = true;
      else throw error;
    }
  }
}

async function returnBatch(
  connection: Connection,
  statements: Statements,
  options: ReapOptions & { limit: number; releaseIdentity: boolean },
): Promise<LostRecord[]> {
  return connection.transaction(
    async () => {
      const lost = await connection.run<LostRecord>(statements.get("reaper/lock_expired"), [
        options.deadNodes,
        options.limit,
        options.asOf ?? null,
      ]);
      await pauseAt("reap.locked");
      const returned = lost.filter((row) => !row.cancelled);
      if (returned.length === 0) return lost;
      await connection.run(statements.get("reaper/return_expired"), [
        returned.map((row) => row.id),
        options.releaseIdentity,
      ]);
      await creditSlots(connection, slotsOf(returned), { statements });
      await pauseAt("reap.returned");
      return lost;
    },
    { lockTimeoutMs: LOCK_TIMEOUT_MS },
  );
}

/** RP3. Returns how many were settled; a row that somebody has locked is left to the next sweep. */
async function cancelRows(
  connection: Connection,
  statements: Statements,
  rows: readonly LostRecord[],
  options: ReapOptions,
): Promise<number> {
  if (rows.length === 0) return 0;
  const result = await flush(connection, rows.map(toOutcome), {
    statements,
    transaction: ownTransaction(false),
    leaseTtlMs: options.leaseTtlMs,
    asOf: options.asOf ?? null,
    poke: null,
  });
  return result.committed.length;
}

function toOutcome(row: LostRecord): WireOutcome {
  return {
    id: row.id,
    claim: row.claim,
    seat: -1,
    generation: 0,
    fsm: row.fsm,
    version: row.version,
    step: row.step,
    visit: row.visit,
    attempt: row.attempt,
    queue: row.queue,
    parentId: row.parent_id,
    parentVisit: row.parent_visit,
    awaited: [],
    shown: [],
    hasChildren: false,
    durationMs: 0,
    decision: { kind: "stop", reason: "the claim was lost" },
  };
}
