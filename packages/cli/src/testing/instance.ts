// Instance: what a test asserts of one instance. A failed assertion says what the instance is instead, and why.

import { AssertionError, deepStrictEqual } from "node:assert";
import type { Statements } from "#core/database/statements.js";
import type { Status } from "#core/instance.js";
import type { TestSession } from "./session.js";

export interface InstanceView {
  id: number;
  fsm: string;
  step: string;
  status: Status;
  attempt: number;
  state: unknown;
  result: unknown;
  lastError: string | null;
  awaits: string[];
}

interface InstanceRow extends Record<string, unknown> {
  fsm: string;
  step: string;
  status: Status;
  attempt: number;
  state: string;
  result: string | null;
  last_error: string | null;
  awaits: string[];
}

/** Reads one instance. @throws AssertionError when there is none. */
export async function readInstance(
  session: TestSession,
  statements: Statements,
  id: number,
): Promise<InstanceView> {
  const [row] = await session.run<InstanceRow>(statements.get("testing/read_instance"), [id]);
  if (row === undefined)
    throw new AssertionError({
      message: `there is no instance ${id}: it was never inserted, or it was deleted or rolled back`,
    });
  const { last_error: lastError, state, result, ...rest } = row;
  return {
    id,
    ...rest,
    state: JSON.parse(state),
    result: result === null ? null : JSON.parse(result),
    lastError,
  };
}

/** @throws AssertionError unless the instance has the status; the message has step, attempt and last error. */
export function requireStatus(instance: InstanceView, status: Status): void {
  if (instance.status === status) return;
  throw new AssertionError({
    message: `expected instance ${describe(instance)} to be ${status}, but it is ${instance.status}${aside(instance)}`,
    actual: instance.status,
    expected: status,
  });
}

/** @throws AssertionError unless the instance is done, with this result where one is given. */
export function requireDone(instance: InstanceView, result?: unknown): void {
  requireStatus(instance, "done");
  if (result !== undefined)
    deepStrictEqual(
      instance.result,
      result,
      `instance ${describe(instance)} is done with another result: ${JSON.stringify(instance.result)}`,
    );
}

/** @throws AssertionError unless the instance has failed, with this text in its error or with an error that matches. */
export function requireFailed(instance: InstanceView, error?: string | RegExp): void {
  requireStatus(instance, "failed");
  if (error === undefined) return;
  const actual = instance.lastError ?? "";
  if (typeof error === "string" ? actual.includes(error) : error.test(actual)) return;
  throw new AssertionError({
    message: `expected instance ${describe(instance)} to have failed with ${typeof error === "string" ? JSON.stringify(error) : String(error)}, but its error is ${JSON.stringify(actual)}`,
    actual,
    expected: error,
  });
}

/** @throws AssertionError unless the instance waits for a signal, for all of these names where some are given. */
export function requireAwaiting(instance: InstanceView, names: readonly string[]): void {
  requireStatus(instance, "awaiting_signal");
  const missing = names.filter((name) => !instance.awaits.includes(name));
  if (missing.length === 0) return;
  throw new AssertionError({
    message: `expected instance ${describe(instance)} to await ${missing.join(", ")}, but it awaits ${instance.awaits.join(", ")}`,
    actual: instance.awaits,
    expected: names,
  });
}

function describe({ id, fsm }: InstanceView): string {
  return `${id} (${fsm})`;
}

function aside({ step, attempt, lastError, awaits, status }: InstanceView): string {
  const parts = [`step "${step}"`, `attempt ${attempt}`];
  if (status === "awaiting_signal") parts.push(`awaiting ${awaits.join(", ")}`);
  if (lastError !== null) parts.push(`last error: ${lastError}`);
  return ` (${parts.join(", ")})`;
}
