// Update: the statements of a flush that write the rows of the batch.
// U1  Every row that was locked under our guard is updated, or nothing is committed.
// U2  What is the same everywhere leads to the same row: the plain moves of many rows have statements of their own, which do exactly
//     what apply_outcomes does with them.

import { InvariantError } from "#core/errors.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import { earlier, earliestDues, type FlushEnv, type Session } from "./env.js";
import type { HeldOutcome } from "./lock.js";
import { type PlainKind, plainColumns, plainKindOf, transitionColumns } from "./transition.js";

export const NO_IDS: ReadonlySet<number> = new Set();

/** So many plain moves of one kind are worth a statement beside that of the rest. */
const PLAIN_ROWS_MIN = 32;

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
  const { plain, others } = parted(held);
  const total = nothing();
  for (const [kind, rows] of plain) merge(total, await UPDATES[kind](session, rows, env));
  if (others.length > 0) merge(total, await moveRows(session, others, landed, env));
  return { ...total, dues: earliestDues(total.dues) };
}

/** The rows of each kind of plain move that has many, and all others. A lone row is one of the others. */
function parted(held: readonly HeldOutcome[]): {
  plain: ReadonlyMap<PlainKind, HeldOutcome[]>;
  others: readonly HeldOutcome[];
} {
  const plain = new Map<PlainKind, HeldOutcome[]>();
  let others: HeldOutcome[] = [];
  for (const row of held) {
    const kind = plainKindOf(row);
    const group = kind === null ? others : plain.get(kind);
    if (group !== undefined) group.push(row);
    else if (kind !== null) plain.set(kind, [row]);
  }
  for (const [kind, rows] of plain) {
    if (rows.length >= PLAIN_ROWS_MIN || (rows.length === held.length && rows.length > 1)) continue;
    plain.delete(kind);
    others = others.concat(rows);
  }
  return { plain, others };
}

type Update = (session: Session, held: readonly HeldOutcome[], env: FlushEnv) => Promise<Updated>;

const UPDATES: Readonly<Record<PlainKind, Update>> = {
  done: endRows,
  next: requeueRows,
  inline: continueRows,
};

/** Nothing is due, nothing runs on. */
async function endRows(session: Session, held: readonly HeldOutcome[], env: FlushEnv): Promise<Updated> {
  const [ended] = await session.run<{ rows: number; inbox: boolean }>(
    env.statements.get("flusher/apply_done"),
    [...plainColumns(held), env.asOf],
  );
  assertAll(held, ended?.rows ?? 0);
  return { ...nothing(), inboxes: ended?.inbox === true };
}

/** All are due now. */
async function requeueRows(session: Session, held: readonly HeldOutcome[], env: FlushEnv): Promise<Updated> {
  const [moved] = await session.run<{ rows: number }>(env.statements.get("flusher/apply_next"), [
    ...plainColumns(held),
    env.asOf,
  ]);
  assertAll(held, moved?.rows ?? 0);
  const queues = new Set(held.map(({ outcome }) => outcome.queue));
  return { ...nothing(), dues: [...queues].map((queue) => ({ queue, dueInMs: 0 })) };
}

/** None leaves its claim. */
async function continueRows(session: Session, held: readonly HeldOutcome[], env: FlushEnv): Promise<Updated> {
  const [moved] = await session.run<{ rows: number; inboxes: string | null }>(
    env.statements.get("flusher/apply_inline"),
    [...plainColumns(held), env.leaseTtlMs, env.asOf],
  );
  assertAll(held, moved?.rows ?? 0);
  return { ...nothing(), withInbox: idsOf([moved?.inboxes ?? null]) };
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

function nothing(): Updated {
  return { dues: [], deadlineInMs: null, inboxes: false, withInbox: NO_IDS };
}

function merge(into: Updated, more: Updated): void {
  into.dues = [...into.dues, ...more.dues];
  into.deadlineInMs = earlier(into.deadlineInMs, more.deadlineInMs);
  into.inboxes ||= more.inboxes;
  if (more.withInbox.size > 0) into.withInbox = new Set([...into.withInbox, ...more.withInbox]);
}

function assertAll(held: readonly HeldOutcome[], count: number): void {
  if (count === held.length) return;
  throw new InvariantError(`${held.length} rows were locked under our guard, ${count} were updated`);
}

function idsOf(lists: readonly (string | null)[]): ReadonlySet<number> {
  const said = lists.filter((list) => list !== null);
  return said.length === 0 ? NO_IDS : new Set(said.flatMap((list) => list.split(",").map(Number)));
}
