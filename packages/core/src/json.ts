// Json: what `jsonb` can hold, checked before it is written. What a step hands over is what the next step receives, so a
// value that JSON would change is refused here, with its path, instead of being stored as something else.
// Two changes are made and documented (docs/machines.md): a property whose value is undefined is left out, -0 becomes 0.

import { inspect, types } from "node:util";
import type { JsonText } from "./instance.js";
import { checkTexts, explainUnstorable, tooLarge } from "./unstorable.js";

/** Levels of nesting; far below what Postgres's and V8's own recursion can take. */
export const JSON_DEPTH_MAX = 500;

/** Bytes of an error's text in `last_error`: enough for a message and its causes, small enough for every listing. */
export const ERROR_BYTES_MAX = 8_192;

const CAUSES_MAX = 8;

// In unicode mode a proper pair is one character, so only a lone surrogate matches.
const UNSTORABLE_TEXT = /[\0\p{Surrogate}]/u;
const UNSTORABLE_TEXTS = /[\0\p{Surrogate}]/gu;

export interface EncodeOptions {
  /** Bytes of the text, UTF-8. */
  maxBytes: number;
  /** What the value is called in an error: `state`, `children[3].state`. */
  path: string;
}

/** Turns a value into JSON text that `jsonb` stores and gives back as it was. @throws UsageError UNSTORABLE, PAYLOAD_TOO_LARGE */
export function encodeJson(value: unknown, options: EncodeOptions): JsonText {
  const text = textOfSound(value, options.maxBytes);
  if (text === undefined) throw explainUnstorable(value, options);
  // JSON writes a NUL and half of a surrogate pair as \uXXXX; so few texts hold that that the rest is not searched. What is
  // searched is what will be stored: a getter may answer differently the next time.
  if (text.includes("\\u")) checkTexts(JSON.parse(text), options);
  const bytes = Buffer.byteLength(text);
  if (bytes > options.maxBytes) throw tooLarge(options, bytes);
  return text;
}

/** Undefined for a value that JSON does not hold, or that cannot be read. */
function textOfSound(value: unknown, maxBytes: number): string | undefined {
  try {
    return isSound(value, 0, { bytes: maxBytes }) ? JSON.stringify(value) : undefined;
  } catch {
    // A getter or a proxy of the user's: explainUnstorable finds where.
    return undefined;
  }
}

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

/** `state` and `["items", 3, "when"]` make `state.items[3].when`. */
export function joinPath(base: string, keys: readonly PropertyKey[]): string {
  let path = base;
  for (const key of keys) {
    if (typeof key === "number") path += `[${key}]`;
    else if (typeof key === "string" && /^[A-Za-z_$][\w$]*$/.test(key)) path += path === "" ? key : `.${key}`;
    else path += `[${typeof key === "symbol" ? String(key) : JSON.stringify(key)}]`;
  }
  return path;
}

/**
 * Where two JSON values differ, as the keys that lead there; null when they are equal. An absent property equals an
 * undefined one. With `mayAdd`, `stored` may hold properties that `given` has not (a schema's defaults).
 */
export function findDifference(given: unknown, stored: unknown, mayAdd = false): PropertyKey[] | null {
  if (Object.is(given, stored) || (given === 0 && stored === 0)) return null;
  if (typeof given !== "object" || typeof stored !== "object" || given === null || stored === null) return [];
  if (Array.isArray(stored)) {
    if (!Array.isArray(given) || given.length !== stored.length) return [];
    for (let index = 0; index < stored.length; index++) {
      const deeper = findDifference(given[index], stored[index], mayAdd);
      if (deeper !== null) return [index, ...deeper];
    }
    return null;
  }
  if (!isPlainObject(given)) return [];
  const left = given as Readonly<Record<string, unknown>>;
  const right = stored as Readonly<Record<string, unknown>>;
  for (const key of Object.keys(left)) {
    if (left[key] === undefined) {
      if (right[key] !== undefined && !mayAdd) return [key];
      continue;
    }
    if (!Object.hasOwn(right, key)) return [key];
    const deeper = findDifference(left[key], right[key], mayAdd);
    if (deeper !== null) return [key, ...deeper];
  }
  if (mayAdd) return null;
  for (const key of Object.keys(right)) {
    if (right[key] !== undefined && !Object.hasOwn(left, key)) return [key];
  }
  return null;
}

/** An object made by `{}` or JSON.parse, in any realm: its prototype is a root. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * The quick look: whether JSON holds the value, texts aside. Takes its text's length, or a little less, off `budget`;
 * one that unfolds without end, or contains itself, ends at the budget or at the depth.
 */
function isSound(value: unknown, depth: number, budget: { bytes: number }): boolean {
  switch (typeof value) {
    case "string":
      budget.bytes -= value.length + 2;
      return budget.bytes >= 0;
    case "number":
      budget.bytes -= 1;
      return budget.bytes >= 0 && Number.isFinite(value);
    case "boolean":
      budget.bytes -= 4;
      return budget.bytes >= 0;
    case "object":
      if (value === null) {
        budget.bytes -= 4;
        return budget.bytes >= 0;
      }
      return budget.bytes >= 0 && depth < JSON_DEPTH_MAX && isSoundObject(value, depth + 1, budget);
    default:
      return false;
  }
}

function isSoundObject(value: object, depth: number, budget: { bytes: number }): boolean {
  budget.bytes -= 2;
  if (hasToJson(value)) return false;
  if (Array.isArray(value)) {
    // An element takes two bytes at least; one with a length beyond all measure is not walked through.
    if (value.length * 2 > budget.bytes + 2) return false;
    for (let index = 0; index < value.length; index++) {
      if (!isSound(value[index], depth, budget)) return false;
    }
    return true;
  }
  if (!isPlainObject(value) || Object.getOwnPropertySymbols(value).length > 0) return false;
  for (const key of Object.keys(value)) {
    const property = value[key];
    if (property === undefined) continue;
    budget.bytes -= key.length + 3;
    if (!isSound(property, depth, budget)) return false;
  }
  return true;
}

/** Whether JSON would ask the value for another one, wherever it has the method from. */
export function hasToJson(value: object): boolean {
  return "toJSON" in value && typeof value.toJSON === "function";
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
