// Messages between the coordinator and one flusher thread, and from a flusher to an executor thread.
// If a flusher dies unexpectedly the process ends (crash-only); leases and the node's death return its rows.

import type { MessagePort } from "node:worker_threads";
import type { JsonText } from "../instance.js";
import type { LedgerMemory } from "../ledger.js";
import type { DatabaseSettings, NodeSettings } from "../settings.js";
import type { DecisionKind, KeyChange } from "./outcome.js";

/** The flusher thread's workerData. */
export interface FlusherTask {
  flusher: number;
  database: DatabaseSettings;
  ledger: LedgerMemory;
  maxBatch: number;
  maxDelayMs: number;
  leaseTtlMs: number;
  /** How long a claim may be believed in of which a step runs ahead, from before its commit was sent. */
  trustMs: number;
  node: string;
  /** "postgres": wakes and children that other nodes may have to run are poked in the flush that commits them. */
  poke: NodeSettings["poke"];
}

export interface LostRow {
  id: number;
  claim: string;
  seat: number;
  generation: number;
  /** Whether user code had begun: it then gets a crash and an attempt. */
  begun: boolean;
}

export type ToFlusher =
  /** A session's outcome port. Sent before the session gets its first row. */
  | { type: "attach"; thread: number; session: number; port: MessagePort }
  /** The session's thread is gone and these rows were in it, begun or on the way to their next step: each flusher is told of the rows of its own queues, if only
   *  of none, since it must drain the port. The flusher first drains the session's port to its close, commits what it
   *  holds, then returns those rows that no outcome arrived for. Answered by "returned", perhaps in parts. */
  | { type: "lost"; thread: number; session: number; rows: readonly LostRow[] }
  /** Rows that have not begun go back untouched (drain, an unknown definition). Answered by "returned". */
  | { type: "handBack"; rows: readonly LostRow[] }
  /** A connection of another part was gone without a word: this one may be too, and is opened anew unless it is at work. */
  | { type: "suspect" }
  /** Flush everything, then answer "drained"; nothing is sent to this flusher afterwards. */
  | { type: "drain" };

export type FromFlusher =
  /** The connection stands; sent once after the start. */
  | { type: "ready" }
  /** The server process of its connection, at each opening: what it notifies, this node knows from "flushed" already. */
  | { type: "session"; processId: number | undefined }
  /** COMMIT returned (or the batch was found committed). The rows are no longer held. */
  | {
      type: "flushed";
      committed: readonly FlushedRow[];
      /** Refused by the guard: the row belongs to somebody else. */
      stale: readonly FlushedRow[];
      /** Committed, and still held: their next steps run ahead in the same threads. Their marks were chained before. */
      continued: readonly ContinuedRow[];
      /** Rows that are runnable now or at a later time: whom to poke. `dueInMs` 0: now. */
      pokes: readonly QueueDue[];
      /** Milliseconds from now of the earliest await deadline that this batch armed, or null. */
      deadlineInMs: number | null;
    }
  /** These rows of a "lost" or "handBack" are no longer held: they went back to runnable, or the guard refused.
   *  A row that an outcome had arrived for is not among them: it is answered by "flushed". */
  | { type: "returned"; rows: readonly FlushedRow[]; pokes: readonly QueueDue[] }
  /** The steps of a commit, while somebody observes them (Ledger.areStepsObserved). */
  | { type: "steps"; steps: readonly StepFacts[] }
  /** An event for node:diagnostics_channel. */
  | { type: "event"; name: string; fields: Record<string, unknown> }
  /** A log record for main. */
  | { type: "log"; level: "info" | "warn" | "error"; message: string; fields: Record<string, unknown> }
  /** The database cannot be reached, or can be again; while it is down no row is claimed. */
  | { type: "database"; up: true }
  | { type: "database"; up: false; error: { message: string; code?: string } }
  | { type: "drained" };

export interface FlushedRow {
  seat: number;
  generation: number;
}

export interface QueueDue {
  queue: string;
  dueInMs: number;
}

/** A row of which the next step runs ahead. */
export interface ContinuedRow extends FlushedRow {
  /** The next step, and its visit. */
  step: string;
  visit: number;
  /** The key that the outcome has switched to, null where it released it; undefined: kept. */
  key: KeyChange;
  /** A gate or a rate limit has to admit the next step before it runs. */
  needsAdmission: boolean;
}

/**
 * From a flusher to the executor thread of steps that run ahead. `tenancies` are flat pairs: seat, generation. If the thread
 * is gone by then, the flusher gives the rows back.
 */
export type ToRunner =
  /** The rows' outcomes are committed, and the claims stand: their next steps may run as soon as they are admitted, where
   *  they have to be (ToExecutor "admitted"). `inputs`: of those that have signals or children. */
  | { type: "committed"; tenancies: readonly number[]; inputs: readonly RunnerInputs[] }
  /** The chains are over: the commit was refused, or has let the rows go (a cancel, a drain). Answered by "ended". */
  | { type: "left"; tenancies: readonly number[] };

/** What waits for the next step of a row, as a claim would have brought it (ClaimedRow). */
export interface RunnerInputs extends FlushedRow {
  inbox: JsonText | null;
  children: JsonText | null;
}

/** What is told of one committed step. */
export interface StepFacts {
  instance: number;
  fsm: string;
  version: number;
  step: string;
  attempt: number;
  queue: string;
  /** What the step decided. */
  kind: DecisionKind;
  /** How long its user code ran. */
  durationMs: number;
}
