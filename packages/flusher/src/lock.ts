// Lock: the first statement of a flush. Sorts a batch by what stands in its rows, under the lock.
// K1  The flush never waits for an instance row: what somebody else holds locked is put off, with everything of its family
//     (a child whose parent is locked).
// K2  Only a row whose guard fails under the lock, or which is gone, is stale.

import type { WireOutcome } from "#core/protocol/outcome.js";
import { plainArray } from "./arrays.js";
import type { FlushEnv, Session } from "./env.js";
import { cancellation, type Transition, transitionOf } from "./transition.js";

/** An outcome whose row is ours, locked, and what it makes of that row. */
export interface HeldOutcome {
  outcome: WireOutcome;
  transition: Transition;
  /** The attempt that stands in the row. */
  attempt: number;
  /** The gate slot that the row holds. */
  slot: { key: string; shard: number } | null;
  /** The row may enter the scope of a correlation key that it does not occupy now. */
  enters: boolean;
  cancelled: boolean;
}

export interface LockedBatch {
  held: HeldOutcome[];
  stale: WireOutcome[];
  /** Found committed already: sent before a failover, and answered by nobody. */
  landed: WireOutcome[];
  /** Locked by somebody else. */
  locked: WireOutcome[];
  xid: string | null;
}

/** What stands in a locked row. */
interface LockedRow {
  locked_by: string | null;
  visit: number;
  attempt: number;
  executing: boolean;
  gate: string | null;
  shard: number | null;
  enters: boolean;
  cancelled: string | null;
  on_cancel: string | null;
}

/** An answer of lock_batch.sql: rows that are all alike. */
interface LockAnswer extends LockedRow, Record<string, unknown> {
  ids: string;
  xid: string;
}

export async function lockBatch(
  session: Session,
  outcomes: readonly WireOutcome[],
  env: FlushEnv,
): Promise<LockedBatch> {
  const parents = new Set<number>();
  for (const { parentId, decision } of outcomes) {
    if (parentId !== null && (decision.kind === "done" || decision.kind === "stop")) parents.add(parentId);
  }
  const rows = await lockRows(session, [...outcomes.map(({ id }) => id), ...parents], env);
  // That a cancel ends a row which wanted to go on is known only now; locks that never wait may be taken out of order.
  const late = outcomes.flatMap((outcome) => {
    const row = rows.found.get(outcome.id);
    const { parentId } = outcome;
    const isLate = parentId !== null && !parents.has(parentId);
    return isLate && row !== undefined && isOurs(outcome, row) && ends(outcome, row) ? [parentId] : [];
  });
  const lateParents = late.length === 0 ? undefined : await lockRows(session, late, env);
  const parentIsLocked = (id: number | null): boolean =>
    id !== null && (rows.unlocked.has(id) || lateParents?.unlocked.has(id) === true);

  const batch: LockedBatch = { held: [], stale: [], landed: [], locked: [], xid: rows.xid };
  const taken = new Set<number>();
  for (const outcome of outcomes) {
    const row = rows.found.get(outcome.id);
    if (row === undefined) (rows.unlocked.has(outcome.id) ? batch.locked : batch.stale).push(outcome);
    else if (!isOurs(outcome, row)) (isLanded(outcome, row, env) ? batch.landed : batch.stale).push(outcome);
    else if (ends(outcome, row) && parentIsLocked(outcome.parentId)) batch.locked.push(outcome);
    // One claim runs one visit once: a second outcome of it is refused like any other late one.
    else if (taken.has(outcome.id)) batch.stale.push(outcome);
    else {
      taken.add(outcome.id);
      batch.held.push(holdOf(outcome, row));
    }
  }
  return batch;
}

interface LockedRows {
  found: ReadonlyMap<number, LockedRow>;
  /** Rows that exist and could not be locked. */
  unlocked: ReadonlySet<number>;
  xid: string | null;
}

async function lockRows(session: Session, ids: readonly number[], env: FlushEnv): Promise<LockedRows> {
  const answers = await session.run<LockAnswer>(env.statements.get("flusher/lock_batch"), [plainArray(ids)]);
  const found = new Map<number, LockedRow>();
  for (const answer of answers) for (const id of answer.ids.split(",")) found.set(Number(id), answer);
  const missing = ids.filter((id) => !found.has(id));
  const unlocked = missing.length === 0 ? NOBODY : await findUnlocked(session, missing, env);
  return { found, unlocked, xid: answers[0]?.xid ?? null };
}

const NOBODY: ReadonlySet<number> = new Set();

/** Of the rows that could not be locked: which exist. */
async function findUnlocked(
  session: Session,
  ids: readonly number[],
  env: FlushEnv,
): Promise<ReadonlySet<number>> {
  const rows = await session.run<{ id: number }>(env.statements.get("flusher/find_unlocked"), [
    plainArray(ids),
  ]);
  return new Set(rows.map((row) => Number(row.id)));
}

/** The guard. */
function isOurs(outcome: WireOutcome, row: LockedRow): boolean {
  return row.executing && row.locked_by === outcome.claim && row.visit === outcome.visit;
}

function ends({ decision }: WireOutcome, row: LockedRow): boolean {
  if (row.cancelled !== null) return row.on_cancel === null;
  return decision.kind === "done" || decision.kind === "stop";
}

/** Whether the row shows that this very outcome was committed by an earlier try that got no answer. */
function isLanded(outcome: WireOutcome, row: LockedRow, env: FlushEnv): boolean {
  if (env.resent?.has(outcome) !== true) return false;
  const { decision, visit, attempt } = outcome;
  if (decision.kind === "next" && decision.inline) {
    return row.locked_by === outcome.claim && row.visit === visit + 1;
  }
  if (decision.kind === "retry") return row.visit === visit && row.attempt === attempt + 1;
  return row.visit > visit;
}

function holdOf(outcome: WireOutcome, row: LockedRow): HeldOutcome {
  const decision =
    row.cancelled === null
      ? outcome.decision
      : cancellation(outcome.decision, { reason: row.cancelled, onCancel: row.on_cancel });
  return {
    outcome,
    transition: transitionOf(outcome, decision),
    attempt: row.attempt,
    slot: row.gate === null || row.shard === null ? null : { key: row.gate, shard: row.shard },
    enters: row.enters,
    cancelled: row.cancelled !== null,
  };
}
