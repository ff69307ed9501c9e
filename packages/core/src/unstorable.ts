// Unstorable: why a value cannot be stored, and where in it the reason lies. The slow walk, for values that json.ts has
// turned down or is not sure of.

import { types } from "node:util";
import { UsageError } from "./errors.js";
import { describeError, isStorableText } from "./errorText.js";
import { type EncodeOptions, hasToJson, isPlainObject, JSON_DEPTH_MAX, joinPath } from "./plain.js";

/** The error that says what is wrong with a value, and where. */
export function explainUnstorable(value: unknown, options: EncodeOptions): UsageError {
  const walk: Walk = { ...options, keys: [], ancestors: [], bytesAtLeast: 0 };
  try {
    check(value, walk);
  } catch (error) {
    if (error instanceof UsageError) return error;
    return unstorable(walk, `a value that cannot be read: ${describeError(error, 500)}`, error);
  }
  return unstorable(walk, "a value that is not the same each time it is read");
}

/** Looks into every text of the value. @throws UsageError UNSTORABLE */
export function checkTexts(value: unknown, options: EncodeOptions): void {
  check(value, { ...options, keys: [], ancestors: [], bytesAtLeast: 0 });
}

interface Walk extends EncodeOptions {
  keys: (string | number)[];
  ancestors: object[];
  /** A lower bound of the text's length, so that a value that unfolds without end stops the walk early. */
  bytesAtLeast: number;
}

function check(value: unknown, walk: Walk): void {
  switch (typeof value) {
    case "string":
      if (!isStorableText(value)) throw unstorable(walk, describeText(value));
      count(walk, value.length + 2);
      return;
    case "number":
      if (!Number.isFinite(value)) throw unstorable(walk, `${value}, which JSON turns into null`);
      count(walk, 1);
      return;
    case "boolean":
      count(walk, 4);
      return;
    case "undefined":
      throw unstorable(walk, "undefined; use null");
    case "bigint":
      throw unstorable(walk, `the BigInt ${value}n; use a string`);
    case "symbol":
    case "function":
      throw unstorable(walk, `a ${typeof value}`);
    case "object":
      if (value === null) count(walk, 4);
      else checkObject(value, walk);
  }
}

function checkObject(value: object, walk: Walk): void {
  if (walk.ancestors.includes(value)) throw unstorable(walk, "a cycle: the value contains itself");
  if (walk.ancestors.length >= JSON_DEPTH_MAX)
    throw unstorable(walk, `nested deeper than ${JSON_DEPTH_MAX} levels`);
  walk.ancestors.push(value);
  count(walk, 2);
  if (hasToJson(value) && (Array.isArray(value) || isPlainObject(value))) {
    walk.keys.push("toJSON");
    throw unstorable(walk, "an object with a toJSON method; use what it gives");
  }
  if (Array.isArray(value)) {
    const bytes = walk.bytesAtLeast + value.length * 2 - 2;
    if (bytes > walk.maxBytes) throw tooLarge(walk, bytes);
    for (let index = 0; index < value.length; index++) {
      walk.keys.push(index);
      check(value[index], walk);
      walk.keys.pop();
    }
  } else {
    checkProperties(value, walk);
  }
  walk.ancestors.pop();
}

function checkProperties(value: object, walk: Walk): void {
  if (!isPlainObject(value)) throw unstorable(walk, describeInstance(value));
  if (Object.getOwnPropertySymbols(value).length > 0)
    throw unstorable(walk, "a property named by a symbol, which JSON leaves out");
  for (const key of Object.keys(value)) {
    const property = value[key];
    if (property === undefined) continue;
    walk.keys.push(key);
    if (!isStorableText(key)) throw unstorable(walk, `a property name with ${describeText(key)}`);
    count(walk, key.length + 3);
    check(property, walk);
    walk.keys.pop();
  }
}

function count(walk: Walk, bytes: number): void {
  walk.bytesAtLeast += bytes;
  if (walk.bytesAtLeast > walk.maxBytes) throw tooLarge(walk, walk.bytesAtLeast);
}

function describeText(text: string): string {
  return text.includes("\0")
    ? "a NUL character (U+0000), which Postgres cannot store"
    : "half of a surrogate pair, which is no valid text";
}

function describeInstance(value: object): string {
  if (types.isDate(value)) return "a Date; use its ISO string or its milliseconds";
  if (types.isMap(value)) return "a Map; use an object or an array of pairs";
  if (types.isSet(value)) return "a Set; use an array";
  if (types.isRegExp(value)) return "a RegExp; use its source";
  if (types.isPromise(value)) return "a Promise; await it first";
  if (types.isNativeError(value)) return "an Error; use its message";
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return "binary data; use a base64 string";
  const name = nameOfClass(value);
  return name === "" ? "an object of a class" : `an instance of ${name}; use a plain object`;
}

function nameOfClass(value: object): string {
  const maker: unknown = Reflect.get(value, "constructor");
  return typeof maker === "function" ? maker.name : "";
}

function unstorable(walk: Walk, found: string, cause?: unknown): UsageError {
  const path = joinPath(walk.path, walk.keys);
  return new UsageError("UNSTORABLE", `${path} cannot be stored as JSON: it is ${found}`, {
    path,
    found,
    cause,
  });
}

export function tooLarge({ path, maxBytes }: EncodeOptions, bytes: number): UsageError {
  return new UsageError(
    "PAYLOAD_TOO_LARGE",
    `${path} takes at least ${bytes} bytes as JSON; maxPayloadBytes allows ${maxBytes}`,
    { path, bytes, maxBytes },
  );
}
