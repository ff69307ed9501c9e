// Messages between the coordinator and one executor thread, over the session's control port.
// If the thread dies, the port closes: the coordinator reads the ledger, tells the flushers which rows are lost, and
// opens a new session. If the coordinator dies, the process ends.

import type { MessagePort } from "node:worker_threads";
import type { LedgerMemory } from "../ledger.js";
import type { DefinitionModule } from "../settings.js";
import type { RowBatch } from "./codec.js";

/** The Piscina task that opens a session: one a thread, running until the thread ends. */
export interface SessionTask {
  thread: number;
  session: number;
  modules: readonly DefinitionModule[];
  ledger: LedgerMemory;
  /** Queue names; a queue's index here is its index in the ledger. */
  queues: readonly string[];
  /** For each queue, by index: the flusher that commits its outcomes. */
  flusherOfQueue: readonly number[];
  /** Carries ToExecutor and FromExecutor. */
  control: MessagePort;
  /** One a flusher: carries packed outcomes to it (protocol/codec.ts), and ToRunner back. */
  flusherPorts: readonly MessagePort[];
  /** Carries ExecutorLog to the main thread. */
  logPort: MessagePort;
  maxPayloadBytes: number;
  crashLimit: number;
  /** Configured limit names, so that an unknown one is refused in the step; rates with their burst. */
  rateBursts: Readonly<Record<string, number>>;
  gateNames: readonly string[];
  /** How long a chain of steps that run ahead keeps its claim before it goes back to its queue. */
  inlineMaxMs: number;
}

export type ToExecutor =
  /** Rows to run, in order; each starts when a permit of its queue can be taken. Answered by "ended" a row. */
  | { type: "chunk"; rows: RowBatch }
  /** Permits were put into the ledger: look whether an unstarted row can begin. */
  | { type: "permits" }
  /** Abort the row's `ctx.signal`; the step decides what to do. No answer. */
  | { type: "abort"; seat: number; generation: number; reason: AbortReason }
  /** The next steps of these chains have their limits' leave. They begin when their commits are known as well (ToRunner).
   *  No answer. */
  | { type: "admitted"; tenancies: readonly number[] }
  /** These chains are over: the coordinator has taken their rows back. No answer. */
  | { type: "forget"; tenancies: readonly number[] }
  /** End the session and its thread: start nothing more, send what has ended, exit. Answered by the port's close. */
  | { type: "close" };

export type AbortReason = "timeout" | "cancelled" | "claim_lost" | "shutdown";

/** `tenancies` below are flat pairs: seat, generation, seat, generation. A seat alone may name its next tenant already. */
export type FromExecutor =
  /** Sent once: the definitions are loaded and the session takes rows. */
  | { type: "ready"; catalogue: readonly CatalogueEntry[]; digest: string }
  /** Sent once instead of "ready": the definitions cannot be loaded. The session is over. */
  | { type: "refused"; error: WireError }
  /** User code of these rows has returned for good and their outcomes were posted to their flushers; their permits are free or
   *  in use again. Of a chain: its last step, or a commit that ended it. */
  | { type: "ended"; tenancies: readonly number[] }
  /** These rows have no outcome and go back as they were: their claims are too old to be trusted, and they were not
   *  begun (their marks are free), or their steps ended because they were told that the claim is lost or the node shuts
   *  down (their marks are ended). */
  | { type: "distrusted"; tenancies: readonly number[] }
  /** A log record of the engine's own about this thread; steps log over `logPort`. */
  | { type: "log"; level: "info" | "warn" | "error"; message: string; fields: Record<string, unknown> };

/** What a definition promises, as the coordinator and the catalogue table need it. */
export interface CatalogueEntry {
  name: string;
  version: number;
  queue: string;
  initialStep: string;
  steps: readonly CatalogueStep[];
  onCancel: string | null;
  source: string;
}

export interface CatalogueStep {
  name: string;
  timeoutMs: number | null;
  rerunAfterCrash: boolean;
}

export interface WireError {
  code: string;
  message: string;
  stack: string;
}

/** Log records of executors, in batches; `dropped` counts what did not fit since the last batch. */
export interface ExecutorLog {
  records: readonly Record<string, unknown>[];
  dropped: number;
}
