// What a step decided, as it travels from an executor thread to its queue's flusher: msgpack of engine-owned scalars
// and of JSON text that the worker has checked. If the thread dies before it posts, the lease or the flusher's
// return of the lost row runs the step again; once posted, the outcome counts, whatever happens to the thread.

import type { JsonText, Status } from "../instance.js";

/** Where a delayed row becomes eligible: a delay on the database's clock, or an instant (milliseconds since 1970). */
export type Due = { delayMs: number } | { atMs: number };

/** `undefined` keeps the key, null releases it, a string switches to it. */
export type KeyChange = string | null | undefined;

export interface ChildInsert {
  fsm: string;
  version: number;
  step: string;
  state: JsonText;
  queue: string;
  priority: number;
  due: Due | null;
  concurrencyKey: string | null;
  rateLimit: string | null;
  weight: number;
  correlationKey: string | null;
  correlationScope: readonly Status[];
}

export type Decision =
  | {
      kind: "next";
      step: string;
      state: JsonText;
      due: Due | null;
      rateLimit: string | null;
      weight: number;
      key: KeyChange;
      /** Run the next step on the claim already held; the row stays executing. */
      inline: boolean;
    }
  | { kind: "retry"; state: JsonText; due: Due | null }
  | { kind: "await"; names: readonly string[]; step: string; state: JsonText; deadline: Due | null }
  | { kind: "children"; step: string; state: JsonText; children: readonly ChildInsert[] }
  | { kind: "done"; result: JsonText }
  | { kind: "stop"; reason: string };

export type DecisionKind = Decision["kind"];

/** One outcome under one claim. */
export interface WireOutcome {
  id: number;
  claim: string;
  seat: number;
  generation: number;
  fsm: string;
  version: number;
  /** The step that decided, and its visit and attempt: what a failover compares. */
  step: string;
  visit: number;
  attempt: number;
  queue: string;
  parentId: number | null;
  parentVisit: number | null;
  /** Ids of the awaited signals that the step received: consumed by next and children. */
  awaited: readonly number[];
  /** Ids of the signals that this step, or one before it since the last that consumed, was handed as awaited: what a park has already seen. What merely lay in its inbox wakes. */
  shown: readonly number[];
  /** Whether the step found children. Only an outcome makes some, and parks: without, a next step that runs ahead has none. */
  hasChildren: boolean;
  /** How long user code ran, milliseconds. */
  durationMs: number;
  decision: Decision;
}
