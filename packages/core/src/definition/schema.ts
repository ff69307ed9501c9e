// Schema: user JSON against a user's zod schema, and the rule that both agree.
//
// S1  What was stored is what the next reader gets: the schema's output, stored as JSON and parsed again, is the same.
// S2  What a step hands over is stored whole: the schema may add defaults to it, and changes or drops nothing.

import { safeParse } from "zod/v4/core";
import { UsageError } from "../errors.js";
import type { JsonText } from "../instance.js";
import { encodeJson, findDifference } from "../json.js";
import { joinPath } from "../plain.js";
import type { Schema } from "./storable.js";

export interface SchemaUse {
  /** What the value is called in an error: `state`, `children[3].state`, `result`. */
  path: string;
  /** The code of a refusal by the schema: INVALID_STATE, INVALID_RESULT, INVALID_PAYLOAD. */
  code: string;
  maxBytes: number;
}

/** The schema's output. @throws UsageError with `code` and the path of the first issue */
export function parseBy(
  schema: Schema,
  value: unknown,
  { path, code }: Omit<SchemaUse, "maxBytes">,
): unknown {
  const parsed = tryParse(schema, value, path);
  if (parsed.success) return parsed.data;
  const [first] = parsed.error.issues;
  const problems = parsed.error.issues
    .slice(0, ISSUES_SHOWN_MAX)
    .map((issue) => `${joinPath(path, issue.path)}: ${issue.message}`);
  const more = parsed.error.issues.length - problems.length;
  if (more > 0) problems.push(`and ${more} more`);
  throw new UsageError(code, problems.join("; "), { path: joinPath(path, first?.path ?? []) });
}

/** JSON text of what a caller puts in: the schema's input rules hold, defaults are filled in, then S1. */
export function encodeInput(schema: Schema, value: unknown, use: SchemaUse): JsonText {
  const output = parseBy(schema, value, use);
  const text = encodeJson(output, use);
  if (findDifference(value, output) !== null) checkStable(schema, output, text, use);
  return text;
}

/** JSON text of what a step hands over: S2, and S1. */
export function encodeHandedOver(schema: Schema, value: unknown, use: SchemaUse): JsonText {
  const output = parseBy(schema, value, use);
  const text = encodeJson(output, use);
  // Equal to what was given: then parsing once more would give it again.
  if (findDifference(value, output) === null) return text;
  const lost = findDifference(value, output, true);
  if (lost !== null) throw unstable(use, lost, "the schema drops or changes what it was given");
  checkStable(schema, output, text, use);
  return text;
}

/** The value to parse where the caller gave none: what the schema makes of nothing, or else of an empty object. */
export function absentValue(schema: Schema): unknown {
  const parsed = tryParse(schema, undefined, "state");
  return parsed.success && parsed.data !== undefined ? undefined : {};
}

const ISSUES_SHOWN_MAX = 5;

function checkStable(schema: Schema, output: unknown, text: JsonText, use: SchemaUse): void {
  const again = tryParse(schema, JSON.parse(text), use.path);
  const reason = "its JSON, parsed again by the schema, differs (a transform?)";
  if (!again.success) throw unstable(use, again.error.issues[0]?.path ?? [], reason);
  const difference = findDifference(output, again.data);
  if (difference !== null) throw unstable(use, difference, reason);
}

function tryParse(schema: Schema, value: unknown, path: string): ReturnType<typeof safeParse> {
  try {
    const answer = safeParse(schema, value);
    // zod words its error when it is first read, and looks at the value again for it: a value may refuse that, too.
    if (!answer.success) void answer.error;
    return answer;
  } catch (error) {
    throw new UsageError(
      "SCHEMA_THREW",
      `${path}: the schema threw instead of answering (asynchronous checks are not allowed)`,
      { path, cause: error },
    );
  }
}

function unstable(use: SchemaUse, keys: readonly PropertyKey[], reason: string): UsageError {
  const path = joinPath(use.path, keys);
  return new UsageError("UNSTABLE_SCHEMA", `${path}: a schema must give back what it was given: ${reason}`, {
    path,
  });
}
