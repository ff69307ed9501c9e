// Update: the second statement of a flush, which writes the rows of the batch.
// U1  Every row that was locked under our guard is updated, or nothing is committed.

import { InvariantError } from "#core/errors.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import { earlier, type FlushEnv, type Session } from "./env.js";
import type { HeldOutcome } from "./lock.js";
import { doneColumns, transitionColumns } from "./transition.js";

export const NO_IDS: ReadonlySet<number> = new Set();

export interface Updated {
  dues: QueueDue[];
  deadlineInMs: number | null;
  /** Whether some row that is done has unread signals. */
  inboxes: boolean;
  /** Rows whose next step runs on, and which have signals. */
  withInbox: ReadonlySet<number>;
}

/** Applies the transitions of rows that this transaction has locked. */
export async function updateRows(
  session: Session,
  held: readonly HeldOutcome[],
  landed: ReadonlyMap<number, number>,
  env: FlushEnv,
): Promise<Updated> {
  return held.every((row) => row.transition.kind === "done")
    ? endRows(session, held, env)
    : moveRows(session, held, landed, env);
}

/** A batch in which everything is done: nothing is due, nothing runs on. */
async function endRows(session: Session, held: readonly HeldOutcome[], env: FlushEnv): Promise<Updated> {
  const [ended] = await session.run<{ rows: number; inbox: boolean }>(
    env.statements.get("flusher/apply_done"),
    [...doneColumns(held), env.asOf],
  );
  assertAll(held, ended?.rows ?? 0);
  return { dues: [], deadlineInMs: null, inboxes: ended?.inbox === true, withInbox: NO_IDS };
}

async function moveRows(
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
    inboxes: string | null;
  }>(env.statements.get("flusher/apply_outcomes"), [
    ...transitionColumns(held, landed),
    env.leaseTtlMs,
    env.asOf,
  ]);
  assertAll(
    held,
    rows.reduce((sum, row) => sum + row.rows, 0),
  );
  return {
    dues: rows.flatMap(({ queue, due_ms }) =>
      due_ms === null ? [] : [{ queue, dueInMs: Math.max(0, due_ms) }],
    ),
    deadlineInMs: rows.reduce<number | null>((first, row) => earlier(first, row.deadline_ms), null),
    inboxes: rows.some((row) => row.inbox),
    withInbox: idsOf(rows.map((row) => row.inboxes)),
  };
}

function assertAll(held: readonly HeldOutcome[], count: number): void {
  if (count === held.length) return;
  throw new InvariantError(`${held.length} rows were locked under our guard, ${count} were updated`);
}

function idsOf(lists: readonly (string | null)[]): ReadonlySet<number> {
  const said = lists.filter((list) => list !== null);
  return said.length === 0 ? NO_IDS : new Set(said.flatMap((list) => list.split(",").map(Number)));
}
