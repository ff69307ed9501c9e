// Messages between the main thread and the coordinator thread.
// If the coordinator dies, main ends the process (crash-only). If main dies, the process is gone.

import type { MessagePort } from "node:worker_threads";
import type { NodeSettings } from "../settings.js";
import type { StepFacts } from "./flusher.js";

/** The coordinator thread's workerData. */
export interface CoordinatorTask {
  /** This boot's node id; random, never used again. */
  node: string;
  settings: NodeSettings;
  pulse: SharedArrayBuffer;
  /** Executor sessions and flushers send ExecutorLog here; the other end is in main. */
  logPort: MessagePort;
  /** Stop by itself when nothing is runnable and nothing is held (`start --once`). */
  once: boolean;
}

export type ToCoordinator =
  /** Stop picking, hand back, finish, flush, then answer "drained". */
  | { type: "drain" }
  /** A connection of main's was gone without a word: others may be too. Those that are idle are opened anew. */
  | { type: "suspect" }
  /** Somebody has subscribed to the event of each step, or nobody listens any more. */
  | { type: "observe"; steps: boolean }
  /** Main has registered the node under a new id, because the old one was declared dead. */
  | { type: "renamed"; node: string };

export type FromCoordinator =
  /** The first executor has loaded the definitions and the flushers stand: work is being picked. */
  | { type: "ready" }
  /** The definitions or the configuration cannot be used: the node must not start. */
  | { type: "refused"; code: string; message: string }
  | { type: "health"; executorsReady: number; executorsWanted: number; databaseUp: boolean }
  /** A part has lost its connection, has tried in vain to open another (`error`), or has one again. Main tells the story. */
  | { type: "connection"; part: string; isUp: boolean; error?: { message: string; code?: string } }
  | { type: "event"; name: string; fields: Record<string, unknown> }
  /** The steps of a commit, while they are observed. */
  | { type: "steps"; steps: readonly StepFacts[] }
  | {
      type: "log";
      level: "debug" | "info" | "warn" | "error";
      message: string;
      fields: Record<string, unknown>;
    }
  /** The coordinator cannot go on; the process ends with this as its last log line. */
  | { type: "fatal"; message: string; stack: string }
  | { type: "drained"; clean: boolean };
