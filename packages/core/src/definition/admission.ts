// Admission: the limits that a row asks for, checked and encoded.

import { UsageError } from "../errors.js";
import { joinKey, nameOfKey } from "../key.js";
import { describe, suggest } from "../name.js";
import { joinPath } from "../plain.js";

/** What the worker knows of the configured limits. */
export interface Limits {
  /** Bytes of one JSON value. */
  maxPayloadBytes: number;
  /** Bursts by the name of a rate limit; null where the configuration is not known (a client): then any name passes. */
  rateBursts: Readonly<Record<string, number>> | null;
}

export interface RateDraft {
  rateLimit?: unknown;
  weight?: unknown;
}

/** The rate limit and weight of a step. @throws UsageError INVALID_KEY, UNKNOWN_RATE_LIMIT, INVALID_WEIGHT */
export function encodeRate(
  draft: RateDraft,
  limits: Limits,
  path: string,
): { rateLimit: string | null; weight: number } {
  const rateLimit =
    draft.rateLimit === undefined ? null : joinKey(draft.rateLimit, joinPath(path, ["rateLimit"]));
  const weight = draft.weight === undefined ? 1 : draft.weight;
  if (typeof weight !== "number" || !(weight > 0) || weight === Number.POSITIVE_INFINITY)
    throw refuseWeight(path, `expected a finite number above 0, found ${describe(weight)}`);
  if (rateLimit !== null && limits.rateBursts !== null) {
    const name = nameOfKey(rateLimit);
    const burst = Object.hasOwn(limits.rateBursts, name) ? limits.rateBursts[name] : undefined;
    if (burst === undefined) throw unknownRateLimit(path, name, Object.keys(limits.rateBursts));
    if (weight > burst)
      throw refuseWeight(path, `${weight} can never fit: the burst of "${name}" is ${burst}`);
  }
  return { rateLimit, weight };
}

/** A concurrency key that is taken. @throws UsageError INVALID_KEY, INVALID_NAME */
export function encodeConcurrencyKey(key: unknown, path: string): string {
  return joinKey(key, path);
}

function refuseWeight(base: string, problem: string): UsageError {
  const path = joinPath(base, ["weight"]);
  return new UsageError("INVALID_WEIGHT", `${path}: ${problem}`, { path });
}

function unknownRateLimit(base: string, name: string, allowed: readonly string[]): UsageError {
  const path = joinPath(base, ["rateLimit"]);
  const known = allowed.length === 0 ? "none is configured" : `configured: ${allowed.join(", ")}`;
  return new UsageError(
    "UNKNOWN_RATE_LIMIT",
    `${path}: no rate limit is named "${name}"${suggest(name, allowed)} (${known})`,
    { path, name },
  );
}
