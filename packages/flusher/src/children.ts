// Children: the fan-out of a batch. All children of all its parents are inserted by one statement, in the transaction
// that parks the parents, so that no child can be claimed before its parent waits.

import type { QueueDue } from "#core/protocol/flusher.js";
import type { ChildInsert } from "#core/protocol/outcome.js";
import { plainArray, textArray } from "./arrays.js";
import type { FlushEnv, Session } from "./env.js";
import type { HeldOutcome } from "./lock.js";
import { delayOf, instantOf } from "./transition.js";

export interface Fanout {
  /** How many children were inserted, by parent. */
  landed: ReadonlyMap<number, number>;
  dues: QueueDue[];
}

export async function insertChildren(
  session: Session,
  held: readonly HeldOutcome[],
  env: FlushEnv,
): Promise<Fanout> {
  const children: { parent: number; round: number; child: ChildInsert }[] = [];
  for (const { outcome, transition } of held) {
    if (transition.kind !== "children" || outcome.decision.kind !== "children") continue;
    for (const child of outcome.decision.children) {
      // A child belongs to the visit in which its parent waits, which is the one that this outcome sets.
      children.push({ parent: outcome.id, round: outcome.visit + 1, child });
    }
  }
  if (children.length === 0) return { landed: new Map(), dues: [] };
  const numbers = (read: (child: ChildInsert) => number | null): string =>
    plainArray(children.map(({ child }) => read(child)));
  const texts = (read: (child: ChildInsert) => string | null): string =>
    textArray(children.map(({ child }) => read(child)));
  const rows = await session.run<{ parent_id: number; queue: string; landed: number; due_ms: number }>(
    env.statements.get("flusher/insert_children"),
    [
      plainArray(children.map(({ parent }) => parent)),
      plainArray(children.map(({ round }) => round)),
      texts((child) => child.fsm),
      numbers((child) => child.version),
      texts((child) => child.step),
      texts((child) => child.state),
      texts((child) => child.queue),
      numbers((child) => child.priority),
      numbers((child) => delayOf(child.due)),
      numbers((child) => instantOf(child.due)),
      texts((child) => child.concurrencyKey),
      texts((child) => child.rateLimit),
      numbers((child) => child.weight),
      texts((child) => child.correlationKey),
      texts((child) => (child.correlationKey === null ? null : textArray(child.correlationScope))),
      env.asOf,
    ],
  );
  const landed = new Map<number, number>();
  for (const row of rows) {
    const parent = Number(row.parent_id);
    landed.set(parent, (landed.get(parent) ?? 0) + row.landed);
  }
  return { landed, dues: rows.map((row) => ({ queue: row.queue, dueInMs: Math.max(0, row.due_ms) })) };
}
