// Options: the checks that every options object goes through where it enters: its shape, its keys, its numbers.

import { UsageError } from "../errors.js";
import { describe, INT_MAX, suggest } from "../name.js";
import { isPlainObject } from "../plain.js";
import { reading } from "../readable.js";

export interface OptionsCheck {
  /** The code of a refusal. */
  code: string;
  /** What the options are called in an error. */
  path: string;
}

/** The options as a record; absent ones are an empty record. @throws UsageError with `code`: not an object, an unknown key */
export function checkOptions(
  options: unknown,
  allowed: readonly string[],
  { code, path }: OptionsCheck,
): Readonly<Record<string, unknown>> {
  if (options === undefined) return {};
  return reading(path === "" ? "options" : path, () => checkReadable(options, allowed, { code, path }));
}

/** A copy, so that what was checked is what is used: a getter may answer differently the next time. */
function checkReadable(
  options: unknown,
  allowed: readonly string[],
  { code, path }: OptionsCheck,
): Readonly<Record<string, unknown>> {
  if (!isPlainObject(options))
    throw new UsageError(code, `${path}: expected an object, found ${describe(options)}`, { path });
  for (const key of Object.keys(options)) {
    if (allowed.includes(key)) continue;
    const where = path === "" ? key : `${path}.${key}`;
    throw new UsageError(
      code,
      `${where}: unknown option${suggest(key, allowed)} (allowed: ${allowed.join(", ")})`,
      { path: where, allowed },
    );
  }
  return { ...options };
}

/** @throws UsageError with `code` unless the value is an integer from `min` (1) to `max` (a Postgres int) */
export function checkInteger(
  value: unknown,
  { code, path }: OptionsCheck,
  { min = 1, max = INT_MAX }: { min?: number; max?: number } = {},
): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw new UsageError(code, `${path}: expected an integer from ${min} to ${max}, found ${describe(value)}`, {
    path,
  });
}

/** @throws UsageError with `code` unless the value is a boolean */
export function checkBoolean(value: unknown, { code, path }: OptionsCheck): boolean {
  if (typeof value === "boolean") return value;
  throw new UsageError(code, `${path}: expected true or false, found ${describe(value)}`, { path });
}
