// CrewEvents: what the crew tells the coordinator. All calls are made on the coordinator's thread, never from within a
// call of the coordinator into the crew's `dispatch`.

import type { MessagePort } from "node:worker_threads";
import type { Ledger } from "#core/ledger.js";
import type { CatalogueEntry, WireError } from "#core/protocol/executor.js";
import type { LostRow } from "#core/protocol/flusher.js";
import type { NodeSettings } from "#core/settings.js";
import type { HeldRow, HeldTable } from "../held.js";

export type CrewLogLevel = "info" | "warn" | "error";

export interface CrewEvents {
  /** The first thread has loaded the definitions: work can be picked. Called once. */
  ready(catalogue: readonly CatalogueEntry[]): void;
  /** The definitions cannot be loaded: the node must not start. Called instead of `ready`. */
  refused(error: WireError): void;
  /** User code of these rows has returned and their outcomes are with their flushers; they stay held. Also called
   *  without seats when slots have become free for another reason. */
  ended(seats: readonly number[]): void;
  /** These rows have no outcome, and no crash: they were dropped unbegun because their claims are too old to be
   *  trusted, or their steps ended because they were told to (claim lost, shutdown). To be handed back. */
  distrusted(seats: readonly number[]): void;
  /** The thread is gone, and these rows were in it, begun: to be forwarded to every flusher, also when there are none
   *  (the flusher drains the session's port). Rows that had not begun stay with the crew. */
  lost(thread: number, session: number, rows: readonly LostRow[]): void;
  /** Chains whose next steps cannot begin in their threads (no slot there while others are free, or a thread that takes no work);
   *  they have left them. To be handed back. */
  stranded(rows: readonly HeldRow[]): void;
  /** These rows must run again, in `handle`, and the table does not have what their last commits made of them: to be read anew
   *  and given to `takeUpdated`. */
  outdated(rows: readonly HeldRow[]): void;
  /** A session's outcome ports, one a flusher, to be transferred there before its first row. */
  attach(thread: number, session: number, ports: readonly MessagePort[]): void;
  health(ready: number, wanted: number): void;
  log(level: CrewLogLevel, message: string, fields: Record<string, unknown>): void;
  /** The crew cannot go on; the node ends. */
  fatal(error: Error): void;
}

export interface CrewOptions {
  settings: NodeSettings;
  ledger: Ledger;
  held: HeldTable;
  /** Queue names; the index is the queue's index in the ledger. */
  queues: readonly string[];
  /** For each queue, by index: the flusher that commits its outcomes. */
  flusherOfQueue: readonly number[];
  /** Takes one MessagePort a session, over which ExecutorLog travels; the main thread has the other end. */
  logPort: { postMessage(port: MessagePort, transfer: MessagePort[]): void };
  events: CrewEvents;
}
