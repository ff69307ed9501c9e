// Fsm: `defineFsm`. The compiler checks step names, states and outcomes; what it cannot see is checked here, when the
// module is loaded, so that a node refuses to start instead of failing instances.

import { UsageError } from "../errors.js";
import { checkName, describe, suggest } from "../name.js";
import { isPlainObject } from "../plain.js";
import { type FsmDefinition, makeDefinition, type RuntimeFsm, type RuntimeStep } from "./definition.js";
import { checkBoolean, checkInteger, checkOptions } from "./options.js";
import type { Outcome } from "./outcome.js";
import { parseBy } from "./schema.js";
import type { SignalTypes, StepContext } from "./stepContext.js";
import type { InputOf, JsonObject, OutputOf, Schema, StorableSchema } from "./storable.js";

export type SignalSchemas = Record<string, Schema>;
export type SignalPayloads<G extends SignalSchemas> = { [Name in keyof G]: OutputOf<G[Name]> };
export type SignalInputs<G extends SignalSchemas> = { [Name in keyof G]: InputOf<G[Name]> };

export type MaybePromise<T> = T | PromiseLike<T>;

export type StepFunction<State, Steps extends string, Signals extends SignalTypes, Result> = (
  ctx: StepContext<State, Steps, Signals, Result>,
) => MaybePromise<Outcome>;

export interface StepOptions<State, Steps extends string, Signals extends SignalTypes, Result> {
  run: StepFunction<State, Steps, Signals, Result>;
  /** Milliseconds that one run may take; absent: the machine's `stepTimeoutMs`. */
  timeoutMs?: number;
  /** False: a visit that had begun and was lost is not run again but goes to `handle` as StepCrashedError. Default true. */
  rerunAfterCrash?: boolean;
}

export interface FsmOptions<
  Steps extends string,
  S extends Schema,
  R extends Schema,
  G extends SignalSchemas,
> {
  /** The machine's name in the database. */
  name: string;
  /** A positive integer; absent: 1. Instances finish on the version they started. */
  version?: number;
  /** The queue of its instances, unless their insert says otherwise; absent: "default". */
  queue?: string;
  /** A zod schema; absent: any JSON object. */
  state?: S & StorableSchema<S>;
  /** A zod schema of what `done` takes; absent: any JSON value. */
  result?: R & StorableSchema<R>;
  /** Zod schemas of the payloads by signal name; absent: any name, any payload. */
  signals?: G & { [Name in keyof G]: StorableSchema<G[Name]> };
  /** The first step; absent: the first one of `steps`. */
  initial?: NoInfer<Steps>;
  steps: {
    [Name in Steps]:
      | StepFunction<OutputOf<S>, NoInfer<Steps>, SignalPayloads<G>, OutputOf<R>>
      | StepOptions<OutputOf<S>, NoInfer<Steps>, SignalPayloads<G>, OutputOf<R>>;
  };
  /** What to do when a step throws, times out or cannot be committed; absent: the instance fails with the error's message. */
  handle?: (
    error: Error,
    ctx: StepContext<OutputOf<S>, NoInfer<Steps>, SignalPayloads<G>, OutputOf<R>>,
  ) => MaybePromise<Outcome>;
  /** The step at which a cancelled instance cleans up; absent: it fails. */
  onCancel?: NoInfer<Steps>;
  /** Run the next step on the claim already held, as soon as its predecessor is committed. Default false. */
  inline?: boolean;
  /** Milliseconds that one run of a step may take; absent: no limit. */
  stepTimeoutMs?: number;
}

const FSM_OPTIONS = [
  "name",
  "version",
  "queue",
  "state",
  "result",
  "signals",
  "initial",
  "steps",
  "handle",
  "onCancel",
  "inline",
  "stepTimeoutMs",
] as const satisfies readonly (keyof FsmOptions<string, Schema, Schema, SignalSchemas>)[];
const STEP_OPTIONS = ["run", "timeoutMs", "rerunAfterCrash"] as const;
const CODE = "INVALID_DEFINITION";

/** Defines a machine. @throws UsageError INVALID_DEFINITION, INVALID_NAME: what no instance could run with */
export function defineFsm<
  Steps extends string,
  S extends Schema = Schema<JsonObject, JsonObject | undefined>,
  R extends Schema = Schema,
  G extends SignalSchemas = SignalSchemas,
>(options: FsmOptions<Steps, S, R, G>): FsmDefinition<InputOf<S>, OutputOf<R>, SignalInputs<G>> {
  return makeDefinition(runtimeOf(options));
}

/** The engine's view of a definition's options, checked. */
export function runtimeOf(options: unknown): RuntimeFsm {
  const given = checkOptions(options, FSM_OPTIONS, { code: CODE, path: "" });
  const name = checkName(given.name, "name");
  try {
    return runtimeOfNamed(name, given);
  } catch (error) {
    throw named(error, name);
  }
}

function runtimeOfNamed(name: string, given: Readonly<Record<string, unknown>>): RuntimeFsm {
  const stepTimeoutMs = timeoutOf(given.stepTimeoutMs, "stepTimeoutMs");
  const steps = stepsOf(given.steps, stepTimeoutMs);
  const stateSchema = schemaOf(given.state, "state");
  return {
    name,
    version: given.version === undefined ? 1 : checkInteger(given.version, { code: CODE, path: "version" }),
    queue: given.queue === undefined ? "default" : checkName(given.queue, "queue"),
    initialStep: given.initial === undefined ? firstOf(steps) : stepOf(given.initial, steps, "initial"),
    steps,
    handle:
      given.handle === undefined ? null : functionOf<RuntimeFsm["handle"] & object>(given.handle, "handle"),
    stateSchema,
    resultSchema: schemaOf(given.result, "result"),
    signalSchemas: signalSchemasOf(given.signals),
    parseState: (value) =>
      stateSchema === null ? value : parseBy(stateSchema, value, { path: "state", code: "INVALID_STATE" }),
    onCancel: given.onCancel === undefined ? null : stepOf(given.onCancel, steps, "onCancel"),
    inline: checkInline(given.inline),
  };
}

function stepsOf(steps: unknown, stepTimeoutMs: number | null): Map<string, RuntimeStep> {
  if (!isPlainObject(steps)) throw refuse("steps", `expected an object of steps, found ${describe(steps)}`);
  const names = Object.keys(steps);
  if (names.length === 0) throw refuse("steps", "a machine has at least one step");
  return new Map(names.map((name) => [name, stepFrom(name, steps[name], stepTimeoutMs)]));
}

function stepFrom(name: string, step: unknown, stepTimeoutMs: number | null): RuntimeStep {
  const path = `steps.${checkName(name, "steps")}`;
  if (typeof step === "function")
    return {
      name,
      run: functionOf<RuntimeStep["run"]>(step, path),
      timeoutMs: stepTimeoutMs,
      rerunAfterCrash: true,
    };
  if (!isPlainObject(step))
    throw refuse(
      path,
      `expected a function or { run, timeoutMs?, rerunAfterCrash? }, found ${describe(step)}`,
    );
  const given = checkOptions(step, STEP_OPTIONS, { code: CODE, path });
  return {
    name,
    run: functionOf<RuntimeStep["run"]>(given.run, `${path}.run`),
    timeoutMs: timeoutOf(given.timeoutMs, `${path}.timeoutMs`) ?? stepTimeoutMs,
    rerunAfterCrash:
      given.rerunAfterCrash === undefined
        ? true
        : checkBoolean(given.rerunAfterCrash, { code: CODE, path: `${path}.rerunAfterCrash` }),
  };
}

function firstOf(steps: ReadonlyMap<string, RuntimeStep>): string {
  const [first = ""] = steps.keys();
  // JavaScript moves integer keys to the front of an object, in ascending order.
  if (/^\d+$/.test(first) && steps.size > 1)
    throw refuse("initial", "name the first step: among steps named by numbers the order of writing is lost");
  return first;
}

function stepOf(step: unknown, steps: ReadonlyMap<string, RuntimeStep>, path: string): string {
  if (typeof step === "string" && steps.has(step)) return step;
  const names = [...steps.keys()];
  const hint = typeof step === "string" ? suggest(step, names) : "";
  throw refuse(path, `${describe(step)} is no step${hint} (steps: ${names.join(", ")})`);
}

/** The value as a schema; null when it is absent. @throws UsageError INVALID_DEFINITION */
export function schemaOf(schema: unknown, path: string): Schema | null {
  if (schema === undefined) return null;
  if (typeof schema !== "object" || schema === null || !("_zod" in schema))
    throw refuse(path, `expected a zod schema (zod 4), found ${describe(schema)}`);
  return schema as Schema; // `_zod` is what every schema of zod 4, and nothing else, carries
}

function signalSchemasOf(signals: unknown): ReadonlyMap<string, Schema> | null {
  if (signals === undefined) return null;
  if (!isPlainObject(signals))
    throw refuse("signals", `expected an object of schemas, found ${describe(signals)}`);
  const schemas = Object.entries(signals).map(([name, schema]): [string, Schema] => {
    const path = `signals.${checkName(name, "signals")}`;
    const checked = schemaOf(schema, path);
    if (checked === null) throw refuse(path, "expected a zod schema (zod 4), found undefined");
    return [name, checked];
  });
  return new Map(schemas);
}

function timeoutOf(value: unknown, path: string): number | null {
  return value === undefined ? null : checkInteger(value, { code: CODE, path });
}

function functionOf<F>(value: unknown, path: string): F {
  if (typeof value !== "function") throw refuse(path, `expected a function, found ${describe(value)}`);
  return value as F; // what it takes and returns was checked by the compiler, and what it returns again by decide
}

function refuse(path: string, problem: string): UsageError {
  return new UsageError(CODE, `${path}: ${problem}`, { path });
}

function named(error: unknown, name: string): unknown {
  if (!(error instanceof UsageError)) return error;
  const code = error.code.replace("ERR_GEN_DURABLE_", "");
  return new UsageError(code, `FSM "${name}": ${error.message}`, { path: error.path ?? "", fsm: name });
}

function checkInline(inline: unknown): boolean {
  return inline === undefined ? false : checkBoolean(inline, { code: CODE, path: "inline" });
}
