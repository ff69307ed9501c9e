// What a claim hands to the thread that runs the step. State, inbox and children are JSON text: the coordinator
// never parses them.

import type { JsonText, WakeReason } from "../instance.js";

export interface ClaimedRow {
  id: number;
  /** The claim's name, `<node>/<pick>`; with `id` it fences every write. */
  claim: string;
  /** The row's place in the node's ledger, and the generation of this tenancy. */
  seat: number;
  generation: number;
  fsm: string;
  version: number;
  step: string;
  state: JsonText;
  attempt: number;
  visit: number;
  crashes: number;
  reaps: number;
  queue: string;
  priority: number;
  awaits: readonly string[];
  /** Ids of the signals that this wait, and those before it that consumed nothing, have handed over. */
  awaitSeen: readonly number[];
  wokenBy: WakeReason | null;
  /** JSON array of `{ id, name, payload }`, oldest first, or null when the inbox is empty. */
  inbox: JsonText | null;
  /** JSON array of `{ id, fsm, status, result, error, round }`, or null when there are none. */
  children: JsonText | null;
  parentId: number | null;
  parentVisit: number | null;
  cancelReason: string | null;
  /** Why the step must not run: its visit ends in `handle` with this error. Null: run the step. */
  verdict: Verdict | null;
}

/** A finding of the coordinator about a visit that was begun before: it goes to `handle`, the step does not run. */
export type Verdict =
  | { type: "timed_out"; timeoutMs: number }
  | { type: "crashed"; crashes: number }
  | { type: "uncaught"; message: string; stack: string };
