// Apply: one batch inside one transaction: lock, update, and the riders that the batch needs.
// A1  The number of statements depends on what the batch holds, never on how much: without riders lock and update.
// A2  Riders run over the rows that commit, never over stale or put-off ones.
// A3  Gate slots are credited last: nobody holds a bucket and asks for an instance.

import { pauseAt } from "#core/pausePoint.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { insertChildren } from "./children.js";
import { earliestDues, emptyResult, type FlushEnv, type FlushResult, type Session } from "./env.js";
import { releaseIdentities } from "./identities.js";
import { type HeldOutcome, type LockedBatch, lockBatch } from "./lock.js";
import { consume, creditSlots, freedSlots, freesSlot, joinParents, loadInputs, poke } from "./riders.js";
import { NO_IDS, updateRows } from "./update.js";

export interface AppliedBatch {
  result: FlushResult;
  /** Held-back pokes, owed once the transaction stands. */
  owed: QueueDue[];
  xid: string | null;
}

export interface ApplyOptions {
  /** Rows and parents that may enter a correlation key lose it, whether an occupant can be seen or not. */
  releaseIdentities: boolean;
  /** Told, before anything can wait, which outcomes may enter a correlation key: their write may have to wait. */
  onLocked?: (entering: ReadonlySet<WireOutcome>) => void;
}

/** Applies a batch in the open transaction. Nothing is true before the caller has committed. */
export async function applyBatch(
  session: Session,
  outcomes: readonly WireOutcome[],
  env: FlushEnv,
  options: ApplyOptions,
): Promise<AppliedBatch> {
  const locked = await lockBatch(session, outcomes, env);
  await pauseAt("flush.locked");
  const enters = locked.held.filter((row) => row.enters);
  options.onLocked?.(new Set(enters.map((row) => row.outcome)));
  const result = resultOf(locked);
  const applied: AppliedBatch = { result, owed: [], xid: locked.xid };
  if (locked.held.length === 0) {
    const found = { withInbox: NO_IDS, landed: locked.landed };
    result.inputs = await loadInputs(session, result.continued, found, env);
    return applied;
  }

  const children = await insertChildren(session, locked.held, env);
  const entered = enters.map((row) => ({
    id: row.outcome.id,
    status: statusOf(row, children.landed),
    names: row.transition.names,
    seen: row.transition.seen,
  }));
  result.events.push(...(await releaseIdentities(session, entered, options.releaseIdentities, env)));
  const updated = await updateRows(session, locked.held, children.landed, env);
  result.deadlineInMs = updated.deadlineInMs;
  await consume(session, locked.held, updated.inboxes, env);
  result.inputs = await loadInputs(session, result.continued, { ...updated, landed: locked.landed }, env);
  const woken = await joinParents(session, locked.held, options.releaseIdentities, env);
  result.pokes = earliestDues([...updated.dues, ...children.dues, ...woken]);
  // Rows of other nodes may wait for the slots that come back.
  const freed = locked.held.filter(freesSlot).map(({ outcome }) => ({ queue: outcome.queue, dueInMs: 0 }));
  const heard = earliestDues([...children.dues, ...woken, ...freed]);
  if (env.poke !== null) applied.owed = await poke(session, heard, env.poke, env);
  result.events.push(...(await creditSlots(session, freedSlots(locked.held), env)));
  return applied;
}

function resultOf(locked: LockedBatch): FlushResult {
  const result = emptyResult();
  for (const { outcome, transition } of locked.held) {
    (transition.kind === "inline" ? result.continued : result.committed).push(outcome);
  }
  for (const outcome of locked.landed) {
    const runsOn = outcome.decision.kind === "next" && outcome.decision.inline;
    (runsOn ? result.continued : result.committed).push(outcome);
  }
  result.stale = locked.stale;
  result.deferred = locked.locked.map((outcome) => ({ outcome, reason: "locked" }));
  result.events = locked.stale.map((outcome) => ({
    name: "stale",
    fields: {
      id: outcome.id,
      fsm: outcome.fsm,
      version: outcome.version,
      step: outcome.step,
      kind: outcome.decision.kind,
      queue: outcome.queue,
    },
  }));
  result.transactions = 1;
  return result;
}

/** The status that a transition leads to, before a park looks for a signal once more. */
function statusOf({ outcome, transition }: HeldOutcome, landed: ReadonlyMap<number, number>): string {
  switch (transition.kind) {
    case "inline":
      return "executing";
    case "await":
      return "awaiting_signal";
    case "children":
      return (landed.get(outcome.id) ?? 0) > 0 ? "awaiting_children" : "runnable";
    case "done":
      return "done";
    case "stop":
      return "failed";
    default:
      return "runnable";
  }
}
