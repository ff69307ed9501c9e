// Lifecycle: the legal moves of an instance, one total table. docs/lifecycle.md draws it.
// The statements under sql/ make these moves; the tests read every move that a history recorded against this table.
// L1  A status that is new, or an event that is new, fails to compile until every cell is answered.
// L2  Out of `done` leads nothing; out of `failed` leads a client's retry alone.

import type { Status } from "./instance.js";

export const INSTANCE_EVENTS = [
  "claim",
  "next",
  "nextInline",
  "retry",
  "await",
  "awaitMatched",
  "scheduleChildren",
  "scheduleNone",
  "done",
  "stop",
  "handBack",
  "lose",
  "signal",
  "timeout",
  "join",
  "cancel",
  "cancelToStep",
  "cancelForced",
  "retryByClient",
] as const;
export type InstanceEvent = (typeof INSTANCE_EVENTS)[number];

/** What each event means; the texts of docs/lifecycle.md. */
export const EVENT_MEANINGS: Readonly<Record<InstanceEvent, string>> = {
  claim: "a picker takes the instance, under a lease",
  next: "its step goes on to another step",
  nextInline: "the same, and this node keeps the claim",
  retry: "its step, or `handle`, asks to run again",
  await: "its step parks for a signal",
  awaitMatched: "the same, and a match it has not seen is there",
  scheduleChildren: "its step parks for the children it schedules",
  scheduleNone: "the same, and none was inserted",
  done: "its step ends it with a result",
  stop: "its step, or `handle`, ends it with a reason",
  handBack: "its node returns it before its step began",
  lose: "its thread or node is gone, or its lease is over",
  signal: "a signal with a name it awaits arrives",
  timeout: "the deadline of its park passes",
  join: "the last child of its round ends",
  cancel: "a client cancels it",
  cancelToStep: "the same, and its machine has an `onCancel` step",
  cancelForced: "a client cancels it with `force`",
  retryByClient: "a client retries it",
};

type Moves = Readonly<Record<InstanceEvent, Status | "refused">>;

/** Nothing may happen; each status says what may. */
const REFUSED: Moves = {
  claim: "refused",
  next: "refused",
  nextInline: "refused",
  retry: "refused",
  await: "refused",
  awaitMatched: "refused",
  scheduleChildren: "refused",
  scheduleNone: "refused",
  done: "refused",
  stop: "refused",
  handBack: "refused",
  lose: "refused",
  signal: "refused",
  timeout: "refused",
  join: "refused",
  cancel: "refused",
  cancelToStep: "refused",
  cancelForced: "refused",
  retryByClient: "refused",
};

export const LIFECYCLE: Readonly<Record<Status, Moves>> = {
  runnable: {
    ...REFUSED,
    claim: "executing",
    signal: "runnable",
    cancel: "failed",
    cancelToStep: "runnable",
    cancelForced: "failed",
  },
  executing: {
    ...REFUSED,
    next: "runnable",
    nextInline: "executing",
    retry: "runnable",
    await: "awaiting_signal",
    awaitMatched: "runnable",
    scheduleChildren: "awaiting_children",
    scheduleNone: "runnable",
    done: "done",
    stop: "failed",
    handBack: "runnable",
    lose: "runnable",
    signal: "executing",
    // The step is asked; its outcome, crash or loss becomes the cancellation.
    cancel: "executing",
    cancelToStep: "executing",
    cancelForced: "failed",
  },
  awaiting_signal: {
    ...REFUSED,
    signal: "runnable",
    timeout: "runnable",
    cancel: "failed",
    cancelToStep: "runnable",
    cancelForced: "failed",
  },
  awaiting_children: {
    ...REFUSED,
    signal: "awaiting_children",
    join: "runnable",
    cancel: "failed",
    cancelToStep: "runnable",
    cancelForced: "failed",
  },
  done: REFUSED,
  failed: { ...REFUSED, retryByClient: "runnable" },
};

/** Whether some event leads from one status to the other. An instance that stays as it is has not moved. */
export function isLegalMove(from: Status, to: Status): boolean {
  return from === to || Object.values(LIFECYCLE[from]).includes(to);
}
