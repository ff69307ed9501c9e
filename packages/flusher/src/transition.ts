// Transition: what an outcome makes of its row, as the columns of apply_outcomes.sql take it.

import { unreachable } from "#core/errors.js";
import { INT_MAX } from "#core/name.js";
import type { Decision, Due, WireOutcome } from "#core/protocol/outcome.js";
import { plainArray, textArray } from "./arrays.js";
import type { HeldOutcome } from "./lock.js";

export interface Transition {
  kind: "next" | "inline" | "retry" | "await" | "children" | "done" | "stop";
  attempt: number;
  step: string | null;
  state: string | null;
  result: string | null;
  error: string | null;
  delayMs: number | null;
  atMs: number | null;
  rateLimit: string | null;
  weight: number | null;
  key: string | null;
  setsKey: boolean | null;
  /** Awaited names and already seen signals, as array literals. */
  names: string | null;
  seen: string | null;
}

/**
 * The outcome of a row whose cancel was requested: it goes to its clean-up step, or ends. What the step handed over
 * (a state, read signals) still counts, since the clean-up has to know it.
 */
export function cancellation(
  decision: Decision,
  cancel: { reason: string; onCancel: string | null },
): Decision {
  if (cancel.onCancel === null) {
    return { kind: "stop", reason: cancel.reason === "" ? "cancelled" : `cancelled: ${cancel.reason}` };
  }
  // An empty state keeps what the row holds.
  const state = "state" in decision ? decision.state : "";
  return {
    kind: "next",
    step: cancel.onCancel,
    state,
    due: null,
    rateLimit: null,
    weight: 1,
    key: undefined,
    inline: false,
  };
}

export function transitionOf(outcome: WireOutcome, decision: Decision): Transition {
  const { attempt } = outcome;
  switch (decision.kind) {
    case "next":
      return {
        ...NOTHING,
        delayMs: delayOf(decision.due),
        atMs: instantOf(decision.due),
        kind: decision.inline ? "inline" : "next",
        step: decision.step,
        state: decision.state === "" ? null : decision.state,
        rateLimit: decision.rateLimit,
        weight: decision.weight === 1 ? null : decision.weight,
        // msgpack knows no undefined: an absent key arrives as undefined or not at all.
        key: decision.key ?? null,
        setsKey: decision.key === undefined ? null : true,
      };
    case "retry":
      return {
        ...NOTHING,
        delayMs: delayOf(decision.due),
        atMs: instantOf(decision.due),
        kind: "retry",
        attempt: Math.min(attempt + 1, INT_MAX),
        state: decision.state,
      };
    case "await":
      return {
        ...NOTHING,
        delayMs: delayOf(decision.deadline),
        atMs: instantOf(decision.deadline),
        kind: "await",
        step: decision.step,
        state: decision.state,
        names: textArray(decision.names),
        seen: plainArray(outcome.shown),
      };
    case "children":
      return { ...NOTHING, kind: "children", step: decision.step, state: decision.state };
    case "done":
      return { ...NOTHING, kind: "done", attempt, result: decision.result };
    case "stop":
      return { ...NOTHING, kind: "stop", attempt, error: decision.reason };
    default:
      return unreachable(decision);
  }
}

/** The parameters $1 to $18 of apply_outcomes.sql. */
export function transitionColumns(
  held: readonly HeldOutcome[],
  landed: ReadonlyMap<number, number>,
): string[] {
  const outcomes = held.map((row) => row.outcome);
  const transitions = held.map((row) => row.transition);
  return [
    plainArray(outcomes.map((o) => o.id)),
    textArray(outcomes.map((o) => o.claim)),
    plainArray(outcomes.map((o) => o.visit)),
    textArray(transitions.map((t) => t.kind)),
    plainArray(transitions.map((t) => t.attempt)),
    textArray(transitions.map((t) => t.step)),
    textArray(transitions.map((t) => t.state)),
    textArray(transitions.map((t) => t.result)),
    textArray(transitions.map((t) => t.error)),
    plainArray(transitions.map((t) => t.delayMs)),
    plainArray(transitions.map((t) => t.atMs)),
    textArray(transitions.map((t) => t.rateLimit)),
    plainArray(transitions.map((t) => t.weight)),
    textArray(transitions.map((t) => t.key)),
    plainArray(transitions.map((t) => t.setsKey)),
    textArray(transitions.map((t) => t.names)),
    textArray(transitions.map((t) => t.seen)),
    plainArray(
      held.map((row) => (row.transition.kind === "children" ? (landed.get(row.outcome.id) ?? 0) : null)),
    ),
  ];
}

/** Moves that set everything to constants but a result, or a step and a state. */
export type PlainKind = "done" | "next" | "inline";

/** Whether a row's move is plain: no due time, no limit, no key, and the attempt that it ends with is the one that it had. */
export function plainKindOf({ transition, attempt }: HeldOutcome): PlainKind | null {
  switch (transition.kind) {
    case "done":
      return transition.attempt === attempt ? "done" : null;
    case "next":
    case "inline":
      return transition.delayMs === null &&
        transition.atMs === null &&
        transition.rateLimit === null &&
        transition.weight === null &&
        transition.setsKey === null
        ? transition.kind
        : null;
    default:
      return null;
  }
}

/** The parameters $1 to $3 of apply_done.sql, apply_next.sql and apply_inline.sql. */
export function plainColumns(held: readonly HeldOutcome[]): string[] {
  const claims = new Set<string>();
  const steps = new Map<string, string>();
  let values = "";
  for (const { outcome, transition } of held) {
    claims.add(outcome.claim);
    // Results and states are JSON already.
    values += `${values === "" ? "" : ","}"${outcome.id}":${transition.kind === "done" ? transition.result : moveOf(transition, steps)}`;
  }
  return [plainArray(held.map((row) => row.outcome.id)), textArray([...claims]), `{${values}}`];
}

/** `[step]`, or `[step, state]` where the state changes; `steps` keeps what each step's name looks like. */
function moveOf({ step, state }: Transition, steps: Map<string, string>): string {
  const name = step ?? "";
  let text = steps.get(name);
  if (text === undefined) {
    text = JSON.stringify(name);
    steps.set(name, text);
  }
  return state === null ? `[${text}]` : `[${text},${state}]`;
}

const NOTHING: Transition = {
  kind: "next",
  attempt: 0,
  step: null,
  state: null,
  result: null,
  error: null,
  delayMs: null,
  atMs: null,
  rateLimit: null,
  weight: null,
  key: null,
  setsKey: null,
  names: null,
  seen: null,
};

/** The columns of a due time: after so long, or at an instant. */
export function delayOf(due: Due | null): number | null {
  return due !== null && "delayMs" in due ? due.delayMs : null;
}

export function instantOf(due: Due | null): number | null {
  return due !== null && "atMs" in due ? due.atMs : null;
}
