// Name: the texts that end in indexes. Postgres refuses an index entry beyond some 2,700 bytes only when the row is
// next written, which would be a claim: so every name and key is bounded where it enters.

import { UsageError } from "./errors.js";
import { isStorableText } from "./errorText.js";

/** Bytes of a name, key, queue or step; the schema's CHECKs say the same. */
export const NAME_BYTES_MAX = 512;

/** The largest value of a Postgres `int`. */
export const INT_MAX = 2_147_483_647;

/** Durations stay below a hundred years, which every timestamp of Postgres can take on top of today. */
export const DURATION_MS_MAX = 100 * 365.25 * 86_400_000;

/** Returns the value when it is usable as a name. @throws UsageError INVALID_NAME, saying what `path` is and what is allowed. */
export function checkName(value: unknown, path: string): string {
  if (typeof value !== "string") throw refuse(path, `expected a text, found ${describe(value)}`);
  if (value === "") throw refuse(path, "an empty text is not allowed");
  const bytes = Buffer.byteLength(value);
  if (bytes > NAME_BYTES_MAX)
    throw refuse(path, `found ${bytes} bytes, at most ${NAME_BYTES_MAX} are allowed`);
  if (!isStorableText(value)) throw refuse(path, "a NUL or half of a surrogate pair cannot be stored");
  return value;
}

/** What a value is, for a message: its kind, and itself where it is short. */
export function describe(value: unknown): string {
  if (value === null || value === undefined || typeof value === "number" || typeof value === "boolean")
    return String(value);
  if (typeof value === "string") return value.length > 60 ? `"${value.slice(0, 57)}..."` : `"${value}"`;
  if (typeof value === "bigint") return `${value}n`;
  if (isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

function isArray(value: unknown): boolean {
  try {
    return Array.isArray(value);
  } catch {
    // A revoked proxy does not even say that.
    return false;
  }
}

/** The allowed name that is closest to a misspelt one, or undefined when none is close. */
export function nearest(misspelt: string, allowed: Iterable<string>): string | undefined {
  // A text that no name can be is not misspelt, and comparing it would take its time.
  if (misspelt.length > NAME_BYTES_MAX) return undefined;
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(misspelt.length / 3)) + 1;
  for (const candidate of allowed) {
    if (Math.abs(candidate.length - misspelt.length) >= bestDistance) continue;
    const distance = editDistance(misspelt.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `; did you mean "queues"?`, or nothing when no allowed name is close. */
export function suggest(misspelt: string, allowed: Iterable<string>): string {
  const name = nearest(misspelt, allowed);
  return name === undefined ? "" : `; did you mean "${name}"?`;
}

function refuse(path: string, problem: string): UsageError {
  return new UsageError("INVALID_NAME", `${path}: ${problem}`, { path });
}

function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[right.length] ?? 0;
}
