// StepRun: one claimed row through user code: parse the state, run the step, look at what it returned, turn it into the
// outcome that its flusher commits. Plain: no thread, no port, no ledger; the testing helpers run it as it is.
//
// R1  Exactly one outcome a run, whatever user code does: throws, returns nothing, returns what cannot be stored,
//     settles twice. An error goes to `handle` once; an error of `handle` stops the instance.
// R2  What a call of user code decided is encoded in the turn in which it settles; what it changes later changes nothing.
//     One exception: a step that ends because it was told that the node shuts down or has lost its claim has no
//     outcome. It is given up and its row goes back as it was, unless the step must not run twice.
// R3  `handle` sees the state that the step was given, not what the step made of it.

import { types } from "node:util";
import { TIMER_MS_MAX } from "#core/clock.js";
import type { Limits } from "#core/definition/admission.js";
import { decide } from "#core/definition/decide.js";
import type { RuntimeFsm, RuntimeStep } from "#core/definition/definition.js";
import { OutcomeMaker } from "#core/definition/outcome.js";
import type { DefinitionRegistry } from "#core/definition/registry.js";
import type { StepLog } from "#core/definition/stepContext.js";
import {
  GenDurableError,
  InvariantError,
  StepAbortedError,
  StepTimeoutError,
  StoredStateError,
  UnknownStepError,
} from "#core/errors.js";
import { describeError } from "#core/errorText.js";
import type { AbortReason } from "#core/protocol/executor.js";
import type { Decision, WireOutcome } from "#core/protocol/outcome.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import { Context, inboxOf, LazySignal } from "./context.js";
import { runStorage } from "./guards.js";
import { courseOf } from "./verdict.js";

export interface StepEnvironment {
  registry: DefinitionRegistry;
  limits: Limits;
  crashLimit: number;
  /** Monotonic milliseconds. */
  now: () => number;
  /** Makes a step's logger. */
  makeLog: (fields: Readonly<Record<string, unknown>>) => StepLog;
}

export interface RunListener {
  /** The step has failed and `handle` begins, with a time limit of its own. */
  handling(run: StepRun): void;
  /** User code has returned for good. */
  decided(run: StepRun, outcome: WireOutcome): void;
  /** User code has ended as it was told to, without an outcome (R1). */
  givenUp(run: StepRun): void;
  /** The engine's own code has failed after user code had returned, where no caller is left to throw to. */
  broken(error: unknown): void;
}

/** One call of user code: the step's, or that of `handle` with the error it is to handle. */
interface Call {
  of: "step" | "handle";
  error: unknown;
  maker: OutcomeMaker;
  signal: LazySignal;
}

/** How deep an error's causes are searched. */
const CAUSES_MAX = 8;

const NO_IDS: readonly number[] = [];

export class StepRun {
  readonly row: ClaimedRow;
  readonly fsm: RuntimeFsm;
  readonly step: RuntimeStep | undefined;
  readonly #environment: StepEnvironment;
  readonly #listener: RunListener;
  #call: Call | undefined;
  #isDecided = false;
  #beganAtMs = 0;
  /** Why the run as a whole is asked to end; a timeout concerns one call only. */
  #abortion: StepAbortedError | undefined;

  /** @throws InvariantError when the registry does not know the row's machine: such rows are not claimed. */
  constructor(row: ClaimedRow, environment: StepEnvironment, listener: RunListener) {
    const fsm = environment.registry.get(row.fsm, row.version);
    if (fsm === undefined)
      throw new InvariantError(`a row of the unknown machine ${row.fsm} v${row.version}`);
    this.row = row;
    this.fsm = fsm;
    this.step = fsm.steps.get(row.step);
    this.#environment = environment;
    this.#listener = listener;
  }

  get isDecided(): boolean {
    return this.#isDecided;
  }

  /** Milliseconds that a call of user code may take, or null. */
  get timeoutMs(): number | null {
    return this.step?.timeoutMs ?? null;
  }

  /** The fields that lines about this run carry. */
  get logFields(): Readonly<Record<string, unknown>> {
    const { id, fsm, version, step, attempt } = this.row;
    return { instance: id, fsm, version, step, attempt };
  }

  start(): void {
    const { row, step } = this;
    this.#beganAtMs = this.#environment.now();
    const course = courseOf(row, step, this.#environment.crashLimit);
    if (course.kind === "stop") this.#decide({ kind: "stop", reason: course.reason });
    else if (course.kind === "handle") this.#handle(course.error);
    else if (step === undefined) this.#handle(unknownStep(row, this.fsm));
    else {
      let state: unknown;
      try {
        state = this.#parseState();
      } catch (error) {
        this.#handle(storedState(row, error));
        return;
      }
      this.#run({ of: "step", error: undefined }, state, step.run);
    }
  }

  /** An exception that nothing caught, of code that this run has started. False when the run had been decided. */
  fail(error: unknown): boolean {
    const call = this.#call;
    if (this.#isDecided || call === undefined) return false;
    this.#fail(call, error);
    runStorage.run(this, () => call.signal.abort(asError(error)));
    return true;
  }

  /** Asks the running code to end. */
  abort(reason: AbortReason): void {
    if (this.#isDecided) return;
    const { step } = this.row;
    let error: Error;
    if (reason === "timeout") error = new StepTimeoutError(step, this.timeoutMs ?? 0);
    else {
      this.#abortion ??= new StepAbortedError(step, reason);
      error = this.#abortion;
    }
    // User code that listens belongs to this run, also when it throws.
    runStorage.run(this, () => this.#call?.signal.abort(error));
  }

  #run(of: Pick<Call, "of" | "error">, state: unknown, code: (ctx: unknown) => unknown): void {
    // Spelt out: a spread costs more here than the rest of a run.
    const call: Call = { of: of.of, error: of.error, maker: new OutcomeMaker(), signal: new LazySignal() };
    this.#call = call;
    if (this.#abortion !== undefined) call.signal.abort(this.#abortion);
    const context = new Context({
      fsm: this.fsm,
      row: this.row,
      state,
      maker: call.maker,
      signal: call.signal,
      makeLog: () => this.#environment.makeLog(this.logFields),
    });
    let returned: unknown;
    try {
      returned = runStorage.run(this, code, context);
      if (isThenable(returned)) {
        this.#settle(call, returned).catch((error: unknown) => this.#listener.broken(error));
        return;
      }
    } catch (error) {
      this.#fail(call, error);
      return;
    }
    this.#return(call, returned);
  }

  async #settle(call: Call, pending: PromiseLike<unknown>): Promise<void> {
    let returned: unknown;
    try {
      returned = await pending;
    } catch (error) {
      this.#fail(call, error);
      return;
    }
    this.#return(call, returned);
  }

  #return(call: Call, returned: unknown): void {
    if (this.#call !== call || this.#isDecided) return;
    const { registry, limits } = this.#environment;
    let decision: Decision;
    try {
      const draft = call.maker.draftOfReturned(returned, call.of === "step" ? this.row.step : "handle");
      decision = decide(draft, this.fsm, registry, limits);
    } catch (error) {
      this.#fail(call, error);
      return;
    }
    this.#decide(decision);
  }

  #fail(call: Call, error: unknown): void {
    if (this.#call !== call || this.#isDecided) return;
    if (this.#endsAsTold(error)) {
      this.#isDecided = true;
      this.#call = undefined;
      this.#listener.givenUp(this);
    } else if (call.of === "step") this.#handle(error);
    else this.#decide({ kind: "stop", reason: describeBoth(error, call.error) });
  }

  #endsAsTold(error: unknown): boolean {
    const abortion = this.#abortion;
    if (abortion === undefined || abortion.reason === "cancelled" || this.step?.rerunAfterCrash === false)
      return false;
    return isCausedBy(error, abortion) || isAbortError(error);
  }

  #handle(error: unknown): void {
    const { handle } = this.fsm;
    if (handle === null) {
      this.#decide({ kind: "stop", reason: describeError(asError(error)) });
      return;
    }
    this.#listener.handling(this);
    let state: unknown;
    try {
      state = this.#parseState();
    } catch {
      state = JSON.parse(this.row.state);
    }
    this.#run({ of: "handle", error }, state, (ctx) => handle(asError(error), ctx));
  }

  #parseState(): unknown {
    return this.fsm.parseState(JSON.parse(this.row.state));
  }

  #decide(decision: Decision): void {
    this.#isDecided = true;
    this.#call = undefined;
    const { row } = this;
    const inbox = inboxOf(row);
    const awaited =
      inbox.length === 0 ? NO_IDS : inbox.filter(({ name }) => row.awaits.includes(name)).map(({ id }) => id);
    const outcome: WireOutcome = {
      id: row.id,
      claim: row.claim,
      seat: row.seat,
      generation: row.generation,
      fsm: row.fsm,
      version: row.version,
      step: row.step,
      visit: row.visit,
      attempt: row.attempt,
      queue: row.queue,
      parentId: row.parentId,
      parentVisit: row.parentVisit,
      awaited,
      shown: seenBy(row, awaited),
      hasChildren: row.children !== null,
      durationMs: this.#environment.now() - this.#beganAtMs,
      decision,
    };
    this.#listener.decided(this, outcome);
  }
}

/**
 * What a park has seen: the awaited signals of this step, and of the awaits before it, so that a machine which awaits by turns
 * does not spin. Not the whole inbox: a signal that was there before anybody awaited its name must wake a later await.
 */
function seenBy({ awaitSeen }: ClaimedRow, awaited: readonly number[]): readonly number[] {
  return awaitSeen.length === 0 ? awaited : [...new Set([...awaitSeen, ...awaited])];
}

/** Runs one row to its outcome, in this thread. At its time limit the step is asked to end; one that does not is waited for. */
export function runRow(row: ClaimedRow, environment: StepEnvironment): Promise<WireOutcome> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const limit = (run: StepRun): void => {
      clearTimeout(timer);
      if (run.timeoutMs !== null && run.timeoutMs <= TIMER_MS_MAX)
        timer = setTimeout(() => run.abort("timeout"), run.timeoutMs);
    };
    const run = new StepRun(row, environment, {
      handling: limit,
      decided: (_, outcome) => {
        clearTimeout(timer);
        resolve(outcome);
      },
      // Nobody shuts anything down here.
      givenUp: () => undefined,
      broken: (error) => {
        clearTimeout(timer);
        reject(error);
      },
    });
    limit(run);
    run.start();
    if (run.isDecided) clearTimeout(timer);
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

function isCausedBy(error: unknown, reason: Error): boolean {
  try {
    let current = error;
    for (let depth = 0; depth < CAUSES_MAX && types.isNativeError(current); depth++) {
      if (current === reason) return true;
      current = current.cause;
    }
  } catch {
    // A cause that cannot be read.
  }
  return false;
}

/** What timers, streams and fetch reject with when their signal aborts and they do not pass its reason on. */
function isAbortError(error: unknown): boolean {
  try {
    return error instanceof Error && error.name === "AbortError";
  } catch {
    return false;
  }
}

/** What was thrown, as the error that `handle` is given. */
function asError(thrown: unknown): Error {
  if (isError(thrown)) return thrown;
  return Object.assign(new Error(`the step threw a value that is no Error: ${describeError(thrown)}`), {
    thrown,
  });
}

function isError(thrown: unknown): thrown is Error {
  try {
    return types.isNativeError(thrown) || thrown instanceof Error;
  } catch {
    // A proxy may refuse to say what it is.
    return false;
  }
}

function describeBoth(error: unknown, handled: unknown): string {
  // Two halves of the room for one error: neither may push the other out.
  const half = 4_000;
  return `handle failed: ${describeError(error, half)}; it was to handle: ${describeError(handled, half)}`;
}

function unknownStep(row: ClaimedRow, fsm: RuntimeFsm): UnknownStepError {
  const { name, version, steps } = fsm;
  return new UnknownStepError({ fsm: name, version, step: row.step, steps: [...steps.keys()] });
}

function storedState({ fsm, version, step }: ClaimedRow, error: unknown): StoredStateError {
  const path = error instanceof GenDurableError ? (error.path ?? "state") : "state";
  return new StoredStateError({ fsm, version, step, path, message: describeError(error), cause: error });
}
