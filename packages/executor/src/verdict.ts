// Verdict: whether a visit's step may run. A visit that had begun and was lost too often does not: it goes to `handle`,
// and where `handle` was lost as well it ends without any user code. A function of the row alone, so that every claimant
// finds the same, whether or not its coordinator has said so.

import type { RuntimeStep } from "#core/definition/definition.js";
import { StepCrashedError, StepTimeoutError } from "#core/errors.js";
import type { ClaimedRow } from "#core/protocol/row.js";

export type Course = { kind: "run" } | { kind: "handle"; error: Error } | { kind: "stop"; reason: string };

const RUN: Course = { kind: "run" };

/** What to do with a claimed row. `step` is undefined where the machine has no step of that name. */
export function courseOf(row: ClaimedRow, step: RuntimeStep | undefined, crashLimit: number): Course {
  const crashesMax = step?.rerunAfterCrash === false ? 1 : crashLimit;
  const { verdict } = row;
  if (row.crashes > crashesMax)
    return {
      kind: "stop",
      reason: `${new StepCrashedError(row.step, crashesMax).message}; its handle was lost the same way`,
    };
  if (row.crashes >= crashesMax)
    return { kind: "handle", error: new StepCrashedError(row.step, row.crashes) };
  if (verdict === null) return RUN;
  switch (verdict.type) {
    case "timed_out":
      return { kind: "handle", error: new StepTimeoutError(row.step, verdict.timeoutMs) };
    case "crashed":
      return { kind: "handle", error: new StepCrashedError(row.step, verdict.crashes) };
    case "uncaught":
      return { kind: "handle", error: restoreError(verdict) };
  }
}

function restoreError({ message, stack }: { message: string; stack: string }): Error {
  const error = new Error(message);
  error.stack = stack;
  return error;
}
