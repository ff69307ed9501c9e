// Env: what a flush needs to know beside its outcomes, and what it answers.

import { beginText, type Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import type { JsonText } from "#core/instance.js";
import type { PokeGate } from "#core/poke.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";

/** What a flush asks of a connection; the testing helpers put the caller's transaction behind it. */
export type Session = Pick<Connection, "run" | "command">;

/** How a flush begins and ends its transaction. */
export interface TransactionTexts {
  begin: string;
  commit: string;
  rollback: string;
}

export interface FlushEnv {
  statements: Statements;
  transaction: TransactionTexts;
  /** The lease that a row gets when its next step runs on under the same claim. */
  leaseTtlMs: number;
  /** The instant that counts as now, for tests inside one transaction; null: the database's now(). */
  asOf: Date | null;
  /** Whom other nodes hear from; null: nobody is poked through the database. */
  poke: { channel: string; gate: PokeGate } | null;
  /** Outcomes that were sent before on a connection whose answer was lost. */
  resent?: ReadonlySet<WireOutcome>;
}

/** A wait that cannot be skipped (somebody inserts the same correlation key) lasts so long at most; then the batch splits. */
export const LOCK_TIMEOUT_MS = 100;

const PLANNER = ["enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_bitmapscan"];

/**
 * Transactions of the flusher's own connection. A session that keeps its settings has been told once
 * (flusher/state_session); behind a transaction pooler each transaction tells them again.
 */
export function ownTransaction(keepsSettings: boolean): TransactionTexts {
  const planner = PLANNER.map((name) => `; SET LOCAL ${name} = off`).join("");
  return {
    begin: keepsSettings ? beginText(false) : beginText(true, LOCK_TIMEOUT_MS) + planner,
    commit: "COMMIT",
    rollback: "ROLLBACK",
  };
}

/** Inside a transaction of the caller, which alone commits. */
export const CALLERS_TRANSACTION: TransactionTexts = {
  begin: "SAVEPOINT gen_durable_flush",
  commit: "RELEASE SAVEPOINT gen_durable_flush",
  rollback: "ROLLBACK TO SAVEPOINT gen_durable_flush; RELEASE SAVEPOINT gen_durable_flush",
};

export interface FlushEvent {
  name: string;
  fields: Record<string, unknown>;
}

export interface DeferredOutcome {
  outcome: WireOutcome;
  /** `locked`: somebody holds the row. `waited`: its write had to wait too long, so it must not share a batch. */
  reason: "locked" | "waited";
}

/** Unread signals and children of a row, as JSON text. */
export interface RowInputs {
  inbox: JsonText | null;
  children: JsonText | null;
}

/** What a flush has done. Every outcome is in exactly one of the first four. */
export interface FlushResult {
  /** Committed; the row is no longer ours. */
  committed: WireOutcome[];
  /** Committed, and the row stays ours: its next step runs on. */
  continued: WireOutcome[];
  /** What waits for the next steps of those that have signals or children. */
  inputs: Map<WireOutcome, RowInputs>;
  stale: WireOutcome[];
  deferred: DeferredOutcome[];
  /** Queues whose rows are runnable now or later. */
  pokes: QueueDue[];
  deadlineInMs: number | null;
  events: FlushEvent[];
  /** How many transactions it took. */
  transactions: number;
}

export function emptyResult(): FlushResult {
  return {
    committed: [],
    continued: [],
    inputs: new Map(),
    stale: [],
    deferred: [],
    pokes: [],
    deadlineInMs: null,
    events: [],
    transactions: 0,
  };
}

/** Adds what a later transaction did. */
export function mergeResult(into: FlushResult, more: FlushResult): void {
  into.committed.push(...more.committed);
  into.continued.push(...more.continued);
  for (const [outcome, inputs] of more.inputs) into.inputs.set(outcome, inputs);
  into.stale.push(...more.stale);
  into.deferred.push(...more.deferred);
  into.pokes = earliestDues([...into.pokes, ...more.pokes]);
  into.deadlineInMs = earlier(into.deadlineInMs, more.deadlineInMs);
  into.events.push(...more.events);
  into.transactions += more.transactions;
}

/** One entry a queue: the earliest. */
export function earliestDues(dues: readonly QueueDue[]): QueueDue[] {
  const earliest = new Map<string, number>();
  for (const { queue, dueInMs } of dues) {
    earliest.set(queue, Math.min(earliest.get(queue) ?? Number.POSITIVE_INFINITY, dueInMs));
  }
  return [...earliest].map(([queue, dueInMs]) => ({ queue, dueInMs }));
}

export function earlier(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
