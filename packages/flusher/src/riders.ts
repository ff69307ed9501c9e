// Riders: what a transaction of the flusher does beside its own rows, one statement each, only when it is needed.

import { loadChildren, loadInboxes } from "#core/database/inputs.js";
import { encodeDues } from "#core/poke.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { plainArray, textArray } from "./arrays.js";
import type { FlushEnv, FlushEvent, RowInputs, Session } from "./env.js";
import type { HeldOutcome } from "./lock.js";

/** Deletes what progressing rows have read, and the inboxes of those that are done. A failed row keeps its inbox. */
export async function consume(
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
export async function joinParents(
  session: Session,
  held: readonly HeldOutcome[],
  releaseIdentities: boolean,
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
    releaseIdentities,
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

/** Gives slots back, one entry a shard. */
export async function creditSlots(
  session: Session,
  slots: readonly FreedSlot[],
  env: Pick<FlushEnv, "statements">,
): Promise<FlushEvent[]> {
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
/** Whether a gate slot comes back: the row leaves executing, or its chain leaves its key. */
export function freesSlot({ slot, transition }: HeldOutcome): boolean {
  return slot !== null && (transition.kind !== "inline" || transition.setsKey === true);
}

export function freedSlots(held: readonly HeldOutcome[]): FreedSlot[] {
  return held.flatMap((row) => (row.slot !== null && freesSlot(row) ? [row.slot] : []));
}

/** Reads what waits for the next steps of rows that run on, after what their outcomes consumed: only where something waits. */
export async function loadInputs(
  session: Session,
  continued: readonly WireOutcome[],
  { withInbox, landed }: { withInbox: ReadonlySet<number>; landed: readonly WireOutcome[] },
  env: FlushEnv,
): Promise<Map<WireOutcome, RowInputs>> {
  const inputs = new Map<WireOutcome, RowInputs>();
  const parents = continued.filter((outcome) => outcome.hasChildren).map(({ id }) => id);
  // Of what was committed by a try that got no answer nobody has said whether signals wait.
  const late = landed.length === 0 ? landed : landed.filter((outcome) => continued.includes(outcome));
  const receivers = [...withInbox, ...late.map(({ id }) => id)];
  if (parents.length === 0 && receivers.length === 0) return inputs;
  const inboxes = await loadInboxes(session, env.statements, receivers);
  const children = await loadChildren(session, env.statements, parents);
  for (const outcome of continued) {
    const own = { inbox: inboxes.get(outcome.id) ?? null, children: children.get(outcome.id) ?? null };
    if (own.inbox !== null || own.children !== null) inputs.set(outcome, own);
  }
  return inputs;
}
