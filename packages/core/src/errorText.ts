// Error text: what is said of an error, as Postgres can store it: bounded, without NUL and without half a surrogate pair.

import { inspect, types } from "node:util";

/** Bytes of an error's text in `last_error`: enough for a message and its causes, small enough for every listing. */
export const ERROR_BYTES_MAX = 8_192;

const CAUSES_MAX = 8;

// In unicode mode a proper pair is one character, so only a lone surrogate matches.
const UNSTORABLE_TEXT = /[\0\p{Surrogate}]/u;
const UNSTORABLE_TEXTS = /[\0\p{Surrogate}]/gu;

/** Whether Postgres can store the text: no NUL, no lone surrogate. */
export function isStorableText(text: string): boolean {
  return !UNSTORABLE_TEXT.test(text);
}

/** Makes any text storable: NUL and lone surrogates become U+FFFD, and it is cut to `maxBytes` of UTF-8. */
export function storableText(text: string, maxBytes: number = ERROR_BYTES_MAX): string {
  // A text longer than the limit in characters is longer in bytes: cut first, so that a huge one costs little.
  const clean = (text.length > maxBytes ? text.slice(0, maxBytes) : text).replace(UNSTORABLE_TEXTS, "\uFFFD");
  if (text.length <= maxBytes && Buffer.byteLength(clean) <= maxBytes) return clean;
  const ellipsis = "…";
  const room = Math.max(maxBytes - Buffer.byteLength(ellipsis), 0);
  let bytes = 0;
  let end = 0;
  for (const character of clean) {
    bytes += Buffer.byteLength(character);
    if (bytes > room) break;
    end += character.length;
  }
  return clean.slice(0, end) + ellipsis;
}

/** An error's message with its causes, storable and bounded: what `last_error` says. Takes whatever was thrown; never throws. */
export function describeError(error: unknown, maxBytes: number = ERROR_BYTES_MAX): string {
  const parts: string[] = [];
  const seen = new Set<unknown>();
  for (let current = error; seen.size < CAUSES_MAX && !seen.has(current); ) {
    seen.add(current);
    const part = describeOne(current);
    // Many messages quote their cause already.
    if (!parts.some((told) => told.includes(part))) parts.push(part);
    const cause = causeOf(current);
    if (cause === undefined) break;
    current = cause;
  }
  return storableText(parts.join("; caused by: "), maxBytes);
}

function describeOne(error: unknown): string {
  try {
    if (typeof error === "string") return error;
    if (!isErrorLike(error))
      return inspect(error, { depth: 2, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 2_000 });
    const told: unknown = error.message === "" ? error.name : error.message;
    const text = typeof told === "string" ? told : inspect(told, { depth: 0 });
    const inner: unknown = Reflect.get(error, "errors");
    if (!Array.isArray(inner) || inner.length === 0) return text;
    const shown = inner.slice(0, CAUSES_MAX).map((one) => (isErrorLike(one) ? one.message : String(one)));
    return `${text} [${shown.join("; ")}]`;
  } catch {
    return "an error that cannot be described";
  }
}

function causeOf(error: unknown): unknown {
  try {
    return isErrorLike(error) ? (error.cause ?? undefined) : undefined;
  } catch {
    return undefined;
  }
}

// Errors of other realms (vm contexts, jest) are no `instanceof Error`; what has a message and a stack is meant as one.
function isErrorLike(value: unknown): value is Error {
  if (types.isNativeError(value)) return true;
  return (
    typeof value === "object" &&
    value !== null &&
    typeof Reflect.get(value, "message") === "string" &&
    typeof Reflect.get(value, "stack") === "string"
  );
}
