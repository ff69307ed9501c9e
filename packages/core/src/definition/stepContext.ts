// StepContext: what a step is given. The executor builds it; these are its promises to user code.
// Outcomes are properties, not methods: they are bound, safe to destructure, and checked strictly by the compiler.

import type { Status, WakeReason } from "../instance.js";
import type { Key } from "../key.js";
import type { Schedule } from "../schedule.js";
import type { Child } from "./child.js";
import type { Outcome } from "./outcome.js";
import type { JsonObject } from "./storable.js";

/** Signal names with the type of their payloads. */
export type SignalTypes = Record<string, unknown>;

/** A signal as a step sees it: a union over the declared names, so that `name` tells the payload's type. */
export type SignalOf<Signals extends SignalTypes> = {
  [Name in keyof Signals & string]: {
    readonly id: number;
    readonly name: Name;
    readonly payload: Signals[Name];
  };
}[keyof Signals & string];

/** A child as its parent sees it after the join. */
export interface ChildView {
  readonly id: number;
  readonly fsm: string;
  readonly status: Status;
  /** What a done child gave to `ctx.done`; null otherwise. */
  readonly result: unknown;
  /** Why a failed child failed; null otherwise. */
  readonly error: string | null;
}

export interface NextOptions extends Schedule {
  /** The limit that the next step takes its tokens from; absent: none. */
  rateLimit?: Key | undefined;
  /** Tokens that the next step takes; absent: 1. */
  weight?: number | undefined;
  /** A value switches the key, null releases it, absent keeps it. */
  concurrencyKey?: Key | null | undefined;
  /** Run the next step on the claim already held; absent: as the definition says. */
  inline?: boolean | undefined;
}

/** How long a park waits at most: a duration, or an instant. Neither: for ever. */
export interface AwaitOptions {
  /** Milliseconds, more than 0. */
  timeoutMs?: number | undefined;
  /** A Date, or milliseconds since 1970. */
  until?: Date | number | undefined;
}

type LogMethod = {
  (message: string, ...values: unknown[]): void;
  (fields: object, message?: string, ...values: unknown[]): void;
};

/** A bunyan child logger that carries the instance's id, machine and step. */
export interface StepLog {
  readonly trace: LogMethod;
  readonly debug: LogMethod;
  readonly info: LogMethod;
  readonly warn: LogMethod;
  readonly error: LogMethod;
  readonly fatal: LogMethod;
}

/** What every run of user code is told about its instance. */
export interface RunContext {
  /** The instance's id. */
  readonly id: number;
  readonly fsm: string;
  readonly version: number;
  /** How often this visit of the step was tried before: 0 on the first try. */
  readonly attempt: number;
  /** The same for every try of this visit, and for no other: hand it to services that accept one. */
  readonly idempotencyKey: string;
  /** Aborts when the step times out, is cancelled, has lost its claim, or the node shuts down; its reason says which. */
  readonly signal: AbortSignal;
  readonly log: StepLog;
}

/**
 * The context of one run of a step. `Steps` are the names that `next` may go to; a step that lives in a file of its own
 * names those that it uses: `StepContext<State, "ship" | "refund">`.
 */
export interface StepContext<
  State = JsonObject,
  Steps extends string = string,
  Signals extends SignalTypes = SignalTypes,
  Result = unknown,
> extends RunContext {
  readonly step: string;
  readonly state: State;
  /** The signals that ended the wait: all of the awaited names that are in the inbox. */
  readonly awaited: readonly SignalOf<Signals>[];
  /** All signals that are not consumed yet, oldest first. */
  readonly inbox: readonly SignalOf<Signals>[];
  /** Every child that is still in the database, of all rounds, by id; the join counted those of the last round. */
  readonly children: readonly ChildView[];
  /** Why the instance was parked and is not any more; null for a step that was not parked. */
  readonly wokenBy: WakeReason | null;
  /** In an `onCancel` step: why the instance was cancelled; null elsewhere. */
  readonly cancelReason: string | null;

  /** Goes to another step (or this one again), which sees `state`. */
  readonly next: (step: Steps, state: State, options?: NextOptions) => Outcome;
  /** Runs this step again, now or later, with `attempt` one higher. Signals stay. */
  readonly retry: (state: State, options?: Schedule) => Outcome;
  /** Parks until one of the named signals is there, then goes to `nextStep`. A timeout goes there too: see `wokenBy`. */
  readonly awaitSignal: (
    names: (keyof Signals & string) | readonly (keyof Signals & string)[],
    nextStep: Steps,
    state: State,
    options?: AwaitOptions,
  ) => Outcome;
  /** Creates the children and parks until each of them is done, failed or gone, then goes to `nextStep`. */
  readonly scheduleChildren: (nextStep: Steps, children: readonly Child[], state: State) => Outcome;
  /** Ends the instance as done. No result is stored as null. */
  readonly done: (...result: undefined extends Result ? [result?: Result] : [result: Result]) => Outcome;
  /** Ends the instance as failed; `reason` becomes its `last_error`. */
  readonly stop: (reason: string) => Outcome;
}
