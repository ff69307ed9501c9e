// Json: what `jsonb` can hold, checked before it is written. What a step hands over is what the next step receives, so a
// value that JSON would change is refused here, with its path, instead of being stored as something else.
// Two changes are made and documented (docs/machines.md): a property whose value is undefined is left out, -0 becomes 0.

import type { JsonText } from "./instance.js";
import { type EncodeOptions, hasToJson, isPlainObject, JSON_DEPTH_MAX } from "./plain.js";
import { checkTexts, explainUnstorable, tooLarge } from "./unstorable.js";

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
