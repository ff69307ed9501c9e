// Lock: the first statement of a flush. Sorts a batch by what stands in its rows, under the lock.
// K1  The flush never waits for an instance row: what somebody else holds locked is put off, with everything of its family
//     (a child whose parent is locked).
// K2  Only a row whose guard fails under the lock, or which is gone, is stale.

import type { WireOutcome } from "#core/protocol/outcome.js";
import { plainArray, textArray } from "./arrays.js";
import type { FlushEnv, Session } from "./env.js";
import { cancellation, type Transition, transitionOf } from "./transition.js";

/** An outcome whose row is ours, locked, and what it makes of that row. */
export interface HeldOutcome {
  outcome: WireOutcome;
  transition: Transition;
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
interface LockRow {
  held: boolean | null;
  gate: string | null;
  shard: number | null;
  enters: boolean;
  cancelled: string | null;
  on_cancel: string | null;
  visit: number;
  attempt: number;
  ours: boolean | null;
}

/** A row of lock_batch.sql: the first one is about all that is plain. */
interface LockAnswer extends LockRow, Record<string, unknown> {
  places: string | null;
  xid: string | null;
  n: number | null;
}

/** Held, and there is nothing else to say. */
const PLAIN: LockRow = {
  held: true,
  gate: null,
  shard: null,
  enters: false,
  cancelled: null,
  on_cancel: null,
  visit: 0,
  attempt: 0,
  ours: true,
};

export async function lockBatch(
  session: Session,
  outcomes: readonly WireOutcome[],
  env: FlushEnv,
): Promise<LockedBatch> {
  const parents = new Set<number>();
  for (const { parentId, decision } of outcomes) {
    if (parentId !== null && (decision.kind === "done" || decision.kind === "stop")) parents.add(parentId);
  }
  const rows = await lockRows(session, outcomes, [...parents], env);
  // That a cancel ends a row which wanted to go on is known only now; locks that never wait may be taken out of order.
  const late = outcomes.flatMap(({ parentId }, i) =>
    parentId !== null && !parents.has(parentId) && isCancelledToEnd(rows.own[i]) ? [parentId] : [],
  );
  const lateParents = late.length === 0 ? undefined : await lockRows(session, [], late, env);
  const parentIsLocked = (id: number | null): boolean =>
    id !== null && (rows.lockedParents.has(id) || lateParents?.lockedParents.has(id) === true);

  const batch: LockedBatch = { held: [], stale: [], landed: [], locked: [], xid: rows.xid };
  const taken = new Set<string>();
  outcomes.forEach((outcome, i) => {
    const row = rows.own[i];
    if (row === "absent" || row === undefined) batch.stale.push(outcome);
    else if (row === "locked") batch.locked.push(outcome);
    else if (row.held !== true) (isLanded(outcome, row, env) ? batch.landed : batch.stale).push(outcome);
    else if (ends(outcome, row) && parentIsLocked(outcome.parentId)) batch.locked.push(outcome);
    else {
      // One claim runs one visit once: a second outcome of it is refused like any other late one.
      const name = `${outcome.id} ${outcome.claim}`;
      if (taken.has(name)) batch.stale.push(outcome);
      else batch.held.push(holdOf(outcome, row));
      taken.add(name);
    }
  });
  return batch;
}

interface LockedRows {
  own: (LockRow | "locked" | "absent")[];
  /** Parents that somebody else holds locked. */
  lockedParents: Set<number>;
  xid: string | null;
}

/** Locks rows and parents in one statement, by id. */
async function lockRows(
  session: Session,
  outcomes: readonly WireOutcome[],
  parents: readonly number[],
  env: FlushEnv,
): Promise<LockedRows> {
  const ids = [...outcomes.map((o) => o.id), ...parents];
  const rows = await session.run<LockAnswer>(env.statements.get("flusher/lock_batch"), [
    plainArray(ids),
    textArray(outcomes.map((o) => o.claim)),
    plainArray(outcomes.map((o) => o.visit)),
  ]);
  const found: (LockRow | undefined)[] = Array(ids.length);
  for (const row of rows) {
    if (row.n !== null) found[row.n - 1] = row;
    else if (row.places) for (const place of row.places.split(",")) found[Number(place) - 1] = PLAIN;
  }
  const missing = ids.filter((_, i) => found[i] === undefined);
  const there = missing.length === 0 ? NOBODY : await findUnlocked(session, missing, env);
  return {
    own: outcomes.map((o, i) => found[i] ?? (there.has(o.id) ? "locked" : "absent")),
    lockedParents: new Set(
      parents.filter((id, i) => found[outcomes.length + i] === undefined && there.has(id)),
    ),
    xid: found.some((row) => row !== undefined) ? (rows[0]?.xid ?? null) : null,
  };
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

function ends({ decision }: WireOutcome, row: LockRow): boolean {
  if (row.cancelled !== null) return row.on_cancel === null;
  return decision.kind === "done" || decision.kind === "stop";
}

function isCancelledToEnd(row: LockRow | "locked" | "absent" | undefined): boolean {
  return typeof row === "object" && row.held === true && row.cancelled !== null && row.on_cancel === null;
}

/** Whether the row shows that this very outcome was committed by an earlier try that got no answer. */
function isLanded(outcome: WireOutcome, row: LockRow, env: FlushEnv): boolean {
  if (env.resent?.has(outcome) !== true) return false;
  const { decision, visit, attempt } = outcome;
  if (decision.kind === "next" && decision.inline) return row.ours === true && row.visit === visit + 1;
  if (decision.kind === "retry") return row.visit === visit && row.attempt === attempt + 1;
  return row.visit > visit;
}

function holdOf(outcome: WireOutcome, row: LockRow): HeldOutcome {
  const decision =
    row.cancelled === null
      ? outcome.decision
      : cancellation(outcome.decision, { reason: row.cancelled, onCancel: row.on_cancel });
  return {
    outcome,
    transition: transitionOf(outcome, decision),
    slot: row.gate === null || row.shard === null ? null : { key: row.gate, shard: row.shard },
    enters: row.enters,
    cancelled: row.cancelled !== null,
  };
}
