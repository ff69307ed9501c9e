// Problems: what is wrong with a configuration, each with its path, what was found, and what is allowed.

import type { core } from "zod";
import { UsageError } from "../errors.js";
import { describe, suggest } from "../name.js";
import { joinPath } from "../plain.js";
import { configShape } from "./configShape.js";
import { maskUrl } from "./maskUrl.js";

/** Says where a value was stated: `GEN_DURABLE_WORKERS`, `--workers`, the file. */
export type OriginOf = (path: PathKeys) => string | undefined;

type PathKeys = readonly PropertyKey[];

/** Lines of one error: more are no more use. */
const PROBLEMS_TOLD_MAX = 50;

interface Problem {
  keys: PathKeys;
  message: string;
}

/** One error for everything that is wrong; its `path` is the first one's. */
export function configError(
  issues: readonly core.$ZodIssue[],
  input: unknown,
  originOf: OriginOf,
): UsageError {
  const problems = issues.flatMap((issue) => problemsOf(issue, [], input));
  return refuseConfig(problems, originOf);
}

export function refuseConfig(problems: readonly Problem[], originOf: OriginOf): UsageError {
  const lines = problems.slice(0, PROBLEMS_TOLD_MAX).map(({ keys, message }) => {
    const origin = originOf(keys);
    return `${joinPath("", keys) || "config"}: ${message}${origin === undefined ? "" : ` (from ${origin})`}`;
  });
  if (problems.length > lines.length) lines.push(`and ${problems.length - lines.length} more`);
  return new UsageError("INVALID_CONFIG", lines.join("\n"), { path: joinPath("", problems[0]?.keys ?? []) });
}

function problemsOf(issue: core.$ZodIssue, base: PathKeys, input: unknown): Problem[] {
  const keys = [...base, ...issue.path];
  if (issue.code === "unrecognized_keys") {
    const allowed = keysAllowedAt(keys);
    // One more than is told, so that "more" is said.
    return issue.keys.slice(0, PROBLEMS_TOLD_MAX + 1).map((key) => ({
      keys: [...keys, key],
      message: `unknown key${suggest(key, allowed)} (allowed: ${allowed.join(", ")})`,
    }));
  }
  if (issue.code === "invalid_key") {
    const [inner] = issue.issues;
    return [{ keys, message: `not a usable name: ${inner?.message ?? issue.message}` }];
  }
  if (issue.code === "invalid_union") {
    // The alternative that was meant: the one whose object was recognised, so that its problem lies deeper or in a key.
    const meant = issue.errors.find((branch) => branch.some(isInside));
    if (meant !== undefined) return meant.flatMap((inner) => problemsOf(inner, keys, input));
    const said = issue.errors.flat().find((inner) => inner.message.startsWith("expected"))?.message;
    const message = issue.message.startsWith("expected") ? issue.message : (said ?? issue.message);
    return [{ keys, message: `${message}, found ${foundAt(keys, input)}` }];
  }
  const hasFound = issue.message.startsWith("expected");
  return [{ keys, message: hasFound ? `${issue.message}, found ${foundAt(keys, input)}` : issue.message }];
}

function isInside(issue: core.$ZodIssue): boolean {
  return issue.path.length > 0 || issue.code === "unrecognized_keys";
}

function foundAt(keys: PathKeys, input: unknown): string {
  let value = input;
  for (const key of keys) {
    if (typeof value !== "object" || value === null) return "nothing";
    value = Reflect.get(value, key);
  }
  if (value === undefined) return "nothing";
  // Keys and passphrases of TLS are never shown, also where they stand in the wrong place.
  if (keys[0] === "database" && keys[1] === "ssl" && typeof value !== "object")
    return `a ${typeof value}, which is not shown`;
  return describe(typeof value === "string" ? maskUrl(value) : value);
}

/** The keys of the object at a path of the shape: what an unknown key is compared with. */
function keysAllowedAt(keys: PathKeys): string[] {
  let schemas: core.$ZodType[] = [configShape];
  for (const key of keys) schemas = schemas.flatMap((schema) => stepInto(schema, key));
  return schemas.flatMap((schema) => Object.keys(shapeOf(schema) ?? {}));
}

function stepInto(schema: core.$ZodType, key: PropertyKey): core.$ZodType[] {
  return alternatives(schema).flatMap((alternative) => {
    const { def } = (alternative as core.$ZodTypes)._zod; // every schema of zod is one of this union
    if (def.type === "object") return def.shape[String(key)] ?? [];
    if (def.type === "record") return [def.valueType];
    if (def.type === "array") return [def.element];
    return [];
  });
}

function shapeOf(schema: core.$ZodType): core.$ZodShape | undefined {
  for (const alternative of alternatives(schema)) {
    const { def } = (alternative as core.$ZodTypes)._zod; // every schema of zod is one of this union
    if (def.type === "object") return def.shape;
  }
  return undefined;
}

/** The schemas below defaults, options and unions. */
function alternatives(schema: core.$ZodType): core.$ZodType[] {
  const { def } = (schema as core.$ZodTypes)._zod; // every schema of zod is one of this union
  if (def.type === "union") return def.options.flatMap(alternatives);
  if (def.type === "default" || def.type === "prefault" || def.type === "optional")
    return alternatives(def.innerType);
  if (def.type === "pipe") return alternatives(def.in);
  return [schema];
}
