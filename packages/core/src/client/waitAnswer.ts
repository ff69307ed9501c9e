// WaitAnswer: what `waitFor` takes and tells.

import type { RuntimeFsm } from "../definition/definition.js";
import { checkOptions } from "../definition/options.js";
import { parseBy } from "../definition/schema.js";
import { UsageError } from "../errors.js";
import { DURATION_MS_MAX, describe } from "../name.js";
import type { Sight, WaitRequest } from "./wait.js";

/**
 * done and failed: it has ended. awaiting: it is parked on a signal. busy: it is runnable, executes, or waits for children.
 * not_found: there is no such instance, or none any more.
 */
export type WaitAnswer<Result = unknown> =
  | { status: "done"; result: Result }
  | { status: "failed"; error: string }
  | { status: "awaiting" | "busy"; step: string }
  | { status: "not_found" };

export interface WaitOptions {
  /** Milliseconds; 0 answers what is there now, Infinity waits for ever. Absent: 5,000. */
  timeoutMs?: number | undefined;
  /** Which answers end the wait; absent: done and failed. An instance that has ended always ends it. */
  until?: readonly ("done" | "failed" | "awaiting")[] | undefined;
  /** Ends the wait with its reason. */
  signal?: AbortSignal | undefined;
}

const TIMEOUT_MS_DEFAULT = 5_000;
const CODE = "INVALID_OPTION";

/** @throws UsageError INVALID_OPTION */
export function checkWait(options: unknown): Omit<WaitRequest, "id"> {
  const { timeoutMs, until, signal } = checkOptions(options, ["timeoutMs", "until", "signal"], {
    code: CODE,
    path: "options",
  });
  return {
    timeoutMs: timeoutMs === undefined ? TIMEOUT_MS_DEFAULT : timeoutOf(timeoutMs),
    untilAwaiting: until !== undefined && untilOf(until).includes("awaiting"),
    signal: signal === undefined ? undefined : signalOf(signal),
  };
}

/** The result is parsed, and checked by the machine's schema where it has one. @throws UsageError INVALID_RESULT */
export function answerOf(sight: Sight, fsm: RuntimeFsm | null): WaitAnswer {
  if (sight.status !== "done") return sight;
  const result: unknown = sight.result === null ? null : JSON.parse(sight.result);
  const schema = fsm?.resultSchema ?? null;
  return {
    status: "done",
    result: schema === null ? result : parseBy(schema, result, { path: "result", code: "INVALID_RESULT" }),
  };
}

function timeoutOf(value: unknown): number {
  if (
    typeof value === "number" &&
    value >= 0 &&
    (value <= DURATION_MS_MAX || value === Number.POSITIVE_INFINITY)
  )
    return value;
  throw new UsageError(CODE, `timeoutMs: expected 0 or more milliseconds, found ${describe(value)}`, {
    path: "timeoutMs",
  });
}

const ANSWERS = ["done", "failed", "awaiting"];

function untilOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value) && value.every((answer) => ANSWERS.includes(answer))) return value;
  throw new UsageError(CODE, `until: expected a list of ${ANSWERS.join(", ")}, found ${describe(value)}`, {
    path: "until",
  });
}

function signalOf(value: unknown): AbortSignal {
  if (
    typeof value === "object" &&
    value !== null &&
    typeof Reflect.get(value, "addEventListener") === "function"
  )
    return value as AbortSignal; // of whatever realm
  throw new UsageError(CODE, `signal: expected an AbortSignal, found ${describe(value)}`, { path: "signal" });
}
