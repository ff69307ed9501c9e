// Key: the name of a limit, with or without a partition. `"stripe"` is one key for all; `["stripe", tenant]` is one a
// tenant, stored as `stripe:<tenant>`. What stands before the first colon is the limit's name.

import { UsageError } from "./errors.js";
import { checkName, describe } from "./name.js";

export type KeyPart = string | number | bigint;
export type Key = string | readonly [name: string, ...partition: KeyPart[]];

/** `"stripe"` stays, `["stripe", 42]` becomes `stripe:42`. @throws UsageError INVALID_KEY, INVALID_NAME */
export function joinKey(key: unknown, path: string): string {
  if (typeof key === "string") return checkName(key, path);
  if (!Array.isArray(key)) throw refuse(path, `expected a text or [name, partition], found ${describe(key)}`);
  const [name, ...partition] = key as readonly unknown[];
  if (partition.length === 0)
    throw refuse(path, "expected [name, partition], found an array without a partition");
  if (checkName(name, `${path}[0]`).includes(":"))
    throw refuse(`${path}[0]`, "a colon is not allowed: it separates the name from the partition");
  const parts = partition.map((part, index) => textOfPart(part, `${path}[${index + 1}]`));
  return checkName([name, ...parts].join(":"), path);
}

/** The limit's name in a key: what stands before the first colon. */
export function nameOfKey(key: string): string {
  const colon = key.indexOf(":");
  return colon < 0 ? key : key.slice(0, colon);
}

function textOfPart(part: unknown, path: string): string {
  if (typeof part === "string" && part !== "") return part;
  if (typeof part === "bigint" || (typeof part === "number" && Number.isFinite(part))) return String(part);
  throw refuse(path, `expected a number or a text that is not empty, found ${describe(part)}`);
}

function refuse(path: string, problem: string): UsageError {
  return new UsageError("INVALID_KEY", `${path}: ${problem}`, { path });
}
