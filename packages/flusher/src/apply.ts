// Apply: one batch inside one transaction: lock, update, and the riders that the batch needs.
// A1  The number of statements depends on what the batch holds, never on how much: without riders lock and update.
// A2  Riders run over the rows that commit, never over stale or put-off ones.
// A3  Gate slots are credited last: nobody holds a bucket and asks for an instance.

import { InvariantError } from "#core/errors.js";
import { encodeDues } from "#core/poke.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { plainArray, textArray } from "./arrays.js";
import { insertChildren } from "./children.js";
import { earlier, earliestDues, emptyResult, type FlushEnv, type FlushResult, type Session } from "./env.js";
import { type HeldOutcome, type LockedBatch, lockBatch } from "./lock.js";
import { transitionColumns } from "./transition.js";

export interface AppliedBatch {
  result: FlushResult;
  /** Held-back pokes, owed once the transaction stands. */
  owed: QueueDue[];
  xid: string | null;
  /** Outcomes that had to look for an occupant of their correlation key: their write may wait. */
  entering: ReadonlySet<WireOutcome>;
}

export interface ApplyOptions {
  /** Rows that may enter a correlation key lose it, whether an occupant can be seen or not. */
  releaseIdentities: boolean;
  /** Told what is known of the batch before anything can fail on it. */
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
  const entering = new Set(locked.held.filter((row) => row.enters).map((row) => row.outcome));
  options.onLocked?.(entering);
  const result = resultOf(locked);
  const applied: AppliedBatch = { result, owed: [], xid: locked.xid, entering };
  if (locked.held.length === 0) return applied;

  const children = await insertChildren(session, locked.held, env);
  if (entering.size > 0) {
    const enters = locked.held.filter((row) => row.enters);
    result.events.push(...(await releaseIdentities(session, enters, children.landed, env, options)));
  }
  const updated = await updateRows(session, locked.held, children.landed, env);
  result.deadlineInMs = updated.deadlineInMs;
  await consume(session, locked.held, updated.inboxes, env);
  const woken = await joinParents(session, locked.held, env);
  result.pokes = earliestDues([...updated.dues, ...children.dues, ...woken]);
  if (env.poke !== null) applied.owed = await poke(session, [...children.dues, ...woken], env.poke, env);
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

/** Rows that would enter an occupied correlation key lose their identity; an event names both. */
async function releaseIdentities(
  session: Session,
  enters: readonly HeldOutcome[],
  landed: ReadonlyMap<number, number>,
  env: FlushEnv,
  options: ApplyOptions,
): Promise<FlushResult["events"]> {
  const rows = await session.run<{ id: number; key: string; occupant: number | null }>(
    env.statements.get("flusher/release_identities"),
    [
      plainArray(enters.map((row) => row.outcome.id)),
      textArray(enters.map((row) => statusOf(row, landed))),
      textArray(enters.map((row) => row.transition.names)),
      textArray(enters.map((row) => row.transition.seen)),
      options.releaseIdentities,
      env.asOf,
    ],
  );
  return rows.map(({ id, key, occupant }) => ({
    name: "identity_lost",
    fields: { id: Number(id), correlationKey: key, occupant: occupant === null ? null : Number(occupant) },
  }));
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

interface Updated {
  dues: QueueDue[];
  deadlineInMs: number | null;
  /** Whether some row that is done has unread signals. */
  inboxes: boolean;
}

async function updateRows(
  session: Session,
  held: readonly HeldOutcome[],
  landed: ReadonlyMap<number, number>,
  env: FlushEnv,
): Promise<Updated> {
  const rows = await session.run<{
    queue: string;
    rows: number;
    due_ms: number | null;
    deadline_ms: number | null;
    inbox: boolean;
  }>(env.statements.get("flusher/apply_outcomes"), [
    ...transitionColumns(held, landed),
    env.leaseTtlMs,
    env.asOf,
  ]);
  const count = rows.reduce((sum, row) => sum + row.rows, 0);
  if (count !== held.length) {
    throw new InvariantError(`${held.length} rows were locked under our guard, ${count} were updated`);
  }
  return {
    dues: rows.flatMap(({ queue, due_ms }) =>
      due_ms === null ? [] : [{ queue, dueInMs: Math.max(0, due_ms) }],
    ),
    deadlineInMs: rows.reduce<number | null>((first, row) => earlier(first, row.deadline_ms), null),
    inboxes: rows.some((row) => row.inbox),
  };
}

/** Deletes what progressing rows have read, and the inboxes of those that are done. A failed row keeps its inbox. */
async function consume(
  session: Session,
  held: readonly HeldOutcome[],
  inboxes: boolean,
  env: FlushEnv,
): Promise<void> {
  const targets: number[] = [];
  const signals: number[] = [];
  for (const { outcome, transition } of held) {
    const { kind } = outcome.decision;
    const moved =
      transition.kind === "next" || transition.kind === "inline" || transition.kind === "children";
    if (!moved || (kind !== "next" && kind !== "children")) continue;
    for (const signal of outcome.awaited) {
      targets.push(outcome.id);
      signals.push(signal);
    }
  }
  if (targets.length === 0 && !inboxes) return;
  const done = inboxes
    ? held.filter((row) => row.transition.kind === "done").map((row) => row.outcome.id)
    : [];
  await session.run(env.statements.get("flusher/consume_signals"), [
    plainArray(targets),
    plainArray(signals),
    plainArray(done),
    env.asOf,
  ]);
}

/** Counts ended children off their parents, siblings as one. Returns the queues of the parents that woke. */
async function joinParents(
  session: Session,
  held: readonly HeldOutcome[],
  env: FlushEnv,
): Promise<QueueDue[]> {
  const rounds = new Map<string, { parent: number; round: number; ended: number }>();
  for (const { outcome, transition } of held) {
    const { parentId: parent, parentVisit: round } = outcome;
    if (parent === null || round === null) continue;
    if (transition.kind !== "done" && transition.kind !== "stop") continue;
    const name = `${parent} ${round}`;
    const known = rounds.get(name);
    if (known === undefined) rounds.set(name, { parent, round, ended: 1 });
    else known.ended++;
  }
  if (rounds.size === 0) return [];
  const joins = [...rounds.values()];
  const rows = await session.run<{ queue: string }>(env.statements.get("flusher/join_parents"), [
    plainArray(joins.map((join) => join.parent)),
    plainArray(joins.map((join) => join.round)),
    plainArray(joins.map((join) => join.ended)),
    env.asOf,
  ]);
  return rows.map(({ queue }) => ({ queue, dueInMs: 0 }));
}

/** Tells other nodes, in this transaction. Returns what the window holds back. */
export async function poke(
  session: Session,
  dues: readonly QueueDue[],
  { channel, gate }: NonNullable<FlushEnv["poke"]>,
  env: FlushEnv,
): Promise<QueueDue[]> {
  if (dues.length === 0) return [];
  const { now, later } = gate.sort(dues);
  if (now.length > 0)
    await session.run(env.statements.get("flusher/poke_queues"), [channel, textArray(encodeDues(now))]);
  return later;
}

export interface FreedSlot {
  key: string;
  shard: number;
}

/** The slots of rows that leave executing, and of chains that leave their key. */
function freedSlots(held: readonly HeldOutcome[]): FreedSlot[] {
  return held.flatMap(({ slot, transition }) =>
    slot === null || (transition.kind === "inline" && transition.setsKey !== true) ? [] : [slot],
  );
}

/** Gives slots back, one entry a shard. */
export async function creditSlots(
  session: Session,
  slots: readonly FreedSlot[],
  env: FlushEnv,
): Promise<FlushResult["events"]> {
  if (slots.length === 0) return [];
  const shards = new Map<string, FreedSlot & { count: number }>();
  for (const slot of slots) {
    const name = `${slot.shard} ${slot.key}`;
    const known = shards.get(name);
    if (known === undefined) shards.set(name, { ...slot, count: 1 });
    else known.count++;
  }
  const credits = [...shards.values()];
  const rows = await session.run<{ key: string; shard: number }>(env.statements.get("flusher/credit_slots"), [
    textArray(credits.map((credit) => credit.key)),
    plainArray(credits.map((credit) => credit.shard)),
    plainArray(credits.map((credit) => credit.count)),
  ]);
  return rows.map(({ key, shard }) => ({ name: "slot_surplus", fields: { key, shard } }));
}
