// Schedule: when a row becomes eligible, and until when a park waits. A delay counts on the database's clock from the
// moment its statement runs; an instant is the caller's.

import { types } from "node:util";
import { UsageError } from "./errors.js";
import { DURATION_MS_MAX, describe } from "./name.js";
import { joinPath } from "./plain.js";
import type { Due } from "./protocol/outcome.js";

/** Delay or instant, at most one of them. Neither: at once. */
export interface Schedule {
  /** Milliseconds from now, by the database's clock. */
  delayMs?: number | undefined;
  /** A Date, or milliseconds since 1970. One in the past means at once. */
  at?: Date | number | undefined;
}

/** When the row becomes eligible; null: at once. @throws UsageError INVALID_SCHEDULE */
export function dueOf(schedule: { delayMs?: unknown; at?: unknown }, path: string): Due | null {
  const { delayMs, at } = schedule;
  if (delayMs !== undefined && at !== undefined)
    throw refuse(joinPath(path, ["delayMs"]), "delayMs and at exclude each other; give one of them");
  if (at !== undefined) return { atMs: instantOf(at, joinPath(path, ["at"])) };
  if (delayMs === undefined) return null;
  const checked = durationOf(delayMs, joinPath(path, ["delayMs"]), 0);
  return checked === 0 ? null : { delayMs: checked };
}

/** Until when a park waits; null: for ever. A timeout is longer than 0. @throws UsageError INVALID_SCHEDULE */
export function deadlineOf(options: { timeoutMs?: unknown; until?: unknown }, path: string): Due | null {
  const { timeoutMs, until } = options;
  if (timeoutMs !== undefined && until !== undefined)
    throw refuse(joinPath(path, ["timeoutMs"]), "timeoutMs and until exclude each other; give one of them");
  if (until !== undefined) return { atMs: instantOf(until, joinPath(path, ["until"])) };
  if (timeoutMs === undefined) return null;
  return { delayMs: durationOf(timeoutMs, joinPath(path, ["timeoutMs"]), Number.MIN_VALUE) };
}

function durationOf(value: unknown, path: string, min: number): number {
  if (typeof value === "number" && value >= min && value <= DURATION_MS_MAX) return value;
  const allowed = min === 0 ? "0 or more" : "more than 0";
  throw refuse(path, `expected ${allowed} milliseconds, at most 100 years, found ${describe(value)}`);
}

function instantOf(value: unknown, path: string): number {
  const atMs = types.isDate(value) ? value.getTime() : value;
  if (typeof atMs === "number" && atMs >= 0 && atMs <= Date.now() + DURATION_MS_MAX) return atMs;
  const found = types.isDate(value)
    ? Number.isNaN(atMs)
      ? "an invalid Date"
      : value.toISOString()
    : describe(value);
  throw refuse(
    path,
    `expected a Date, or milliseconds since 1970, at most 100 years from now, found ${found}`,
  );
}

function refuse(path: string, problem: string): UsageError {
  return new UsageError("INVALID_SCHEDULE", `${path}: ${problem}`, { path });
}
