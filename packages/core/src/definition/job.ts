// Job: work that is one step. A job is an ordinary machine whose state is its arguments; its retries are its `handle`.

import { types } from "node:util";
import { UsageError } from "../errors.js";
import { describeError } from "../errorText.js";
import { describe } from "../name.js";
import { type FsmDefinition, makeDefinition } from "./definition.js";
import { type MaybePromise, runtimeOf, schemaOf } from "./fsm.js";
import { checkInteger, checkOptions } from "./options.js";
import type { RunContext, StepContext } from "./stepContext.js";
import type { InputOf, JsonObject, OutputOf, Schema, StorableSchema } from "./storable.js";

export interface JobContext extends RunContext {
  readonly maxAttempts: number;
  /** Fails the job at once, without further tries. Throws to leave `perform`. */
  readonly cancel: (reason: string) => never;
}

export interface JobOptions<A extends Schema, R extends Schema, T extends OutputOf<R>> {
  /** The job's name in the database. */
  name: string;
  /** A positive integer; absent: 1. */
  version?: number;
  /** Absent: "default". */
  queue?: string;
  /** A zod schema of the arguments; absent: any JSON object. */
  args?: A & StorableSchema<A>;
  /** A zod schema of what `perform` returns; absent: any JSON value. */
  result?: R & StorableSchema<R>;
  /** Tries, the first included; absent: 20. */
  maxAttempts?: number;
  /** Milliseconds until the next try, after the try number `attempt` (0 is the first); absent: min(1000 * 2^attempt, 300000). */
  backoff?: (attempt: number, error: Error) => number;
  /** Milliseconds that one try may take; absent: no limit. */
  timeoutMs?: number;
  /** False: a try that had begun and was lost is not repeated; the job fails. Default true. */
  rerunAfterCrash?: boolean;
  /** What it returns is the result (nothing: null); what it throws is retried. */
  perform: (args: OutputOf<A>, ctx: JobContext) => MaybePromise<T>;
}

export const MAX_ATTEMPTS_DEFAULT = 20;
const BACKOFF_FIRST_MS = 1_000;
const BACKOFF_MS_MAX = 300_000;

/** The step's name of every job. */
export const JOB_STEP = "perform";

const JOB_OPTIONS = [
  "name",
  "version",
  "queue",
  "args",
  "result",
  "maxAttempts",
  "backoff",
  "timeoutMs",
  "rerunAfterCrash",
  "perform",
] as const satisfies readonly (keyof JobOptions<Schema, Schema, unknown>)[];
const CODE = "INVALID_DEFINITION";

/** Defines a job. @throws UsageError INVALID_DEFINITION, INVALID_NAME */
export function defineJob<
  A extends Schema = Schema<JsonObject, JsonObject | undefined>,
  R extends Schema = Schema,
  T extends OutputOf<R> = OutputOf<R>,
>(options: JobOptions<A, R, T>): FsmDefinition<InputOf<A>, ResultOfJob<T>> {
  const given = checkOptions(options, JOB_OPTIONS, { code: CODE, path: "" });
  const { perform, backoff = defaultBackoff } = options;
  if (typeof perform !== "function")
    throw refuse("perform", `expected a function, found ${describe(perform)}`);
  if (typeof backoff !== "function")
    throw refuse("backoff", `expected a function, found ${describe(backoff)}`);
  const maxAttempts =
    given.maxAttempts === undefined
      ? MAX_ATTEMPTS_DEFAULT
      : checkInteger(given.maxAttempts, { code: CODE, path: "maxAttempts" });
  type Ctx = StepContext<OutputOf<A>>;

  const run = async (ctx: Ctx) => {
    let cancelled: Cancelled | undefined;
    const cancel = (reason: string): never => {
      cancelled = new Cancelled(reason);
      throw cancelled;
    };
    try {
      const result = await perform(ctx.state, jobContext(ctx, maxAttempts, cancel));
      // Even where `perform` caught what cancel threw.
      return cancelled === undefined ? ctx.done(result) : ctx.stop(cancelled.reason);
    } catch (error) {
      if (cancelled !== undefined) return ctx.stop(cancelled.reason);
      noteThrown(error);
      throw error;
    }
  };

  const handle = (error: Error, ctx: Ctx) => {
    if (ctx.attempt + 1 >= maxAttempts || isFinal(error)) return ctx.stop(describeError(error));
    return ctx.retry(ctx.state, { delayMs: backoff(ctx.attempt, error) });
  };

  return makeDefinition(
    runtimeOf({
      name: options.name,
      version: given.version,
      queue: given.queue,
      state: schemaOf(given.args, "args") ?? undefined,
      result: given.result,
      steps: { [JOB_STEP]: { run, timeoutMs: given.timeoutMs, rerunAfterCrash: given.rerunAfterCrash } },
      handle,
    }),
  );
}

// biome-ignore lint/suspicious/noConfusingVoidType: what a `perform` without a return gives is void.
type ResultOfJob<T> = [T] extends [void] ? null : T;

/** The wait after the try number `attempt`: 1 s, 2 s, 4 s, ..., at most 5 minutes. */
export function defaultBackoff(attempt: number): number {
  return Math.min(BACKOFF_FIRST_MS * 2 ** attempt, BACKOFF_MS_MAX);
}

class Cancelled extends Error {
  constructor(readonly reason: string) {
    super(`cancelled: ${reason}`);
  }
}

// Getters, since a context makes its signal and its log only for those who ask.
function jobContext(ctx: RunContext, maxAttempts: number, cancel: (reason: string) => never): JobContext {
  return {
    id: ctx.id,
    fsm: ctx.fsm,
    version: ctx.version,
    attempt: ctx.attempt,
    maxAttempts,
    cancel,
    get idempotencyKey() {
      return ctx.idempotencyKey;
    },
    get signal() {
      return ctx.signal;
    },
    get log() {
      return ctx.log;
    },
  };
}

// What `perform` threw is retried, whatever it is. An error of the engine that `perform` did not throw says that the
// result cannot be stored or that the try must not be repeated: another try would not change that.
const thrownByPerform = new WeakSet<object>();

function noteThrown(error: unknown): void {
  if (typeof error === "object" && error !== null) thrownByPerform.add(error);
}

function isFinal(error: Error): boolean {
  if (thrownByPerform.has(error) || !types.isNativeError(error)) return false;
  const code: unknown = Reflect.get(error, "code");
  return (
    typeof code === "string" && code.startsWith("ERR_GEN_DURABLE_") && code !== "ERR_GEN_DURABLE_STEP_TIMEOUT"
  );
}

function refuse(path: string, problem: string): UsageError {
  return new UsageError(CODE, `${path}: ${problem}`, { path });
}
