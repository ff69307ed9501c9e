// Outcome: what a step decided, as user code holds it. Opaque: made by the methods of `ctx` only, looked into by the
// engine only, and not generic, so that machines may spawn themselves or each other.
//
// O1  A step returns the one outcome that it made. One that was made and not returned is a forgotten `return`, and an
//     outcome of another run was never this step's: both are errors of the step.

import { UsageError } from "../errors.js";
import { describe } from "../name.js";

// A registered symbol: the definitions' copy of this package may be another one than the engine's.
const OUTCOME = Symbol.for("gen-durable.outcome");

declare const opaque: unique symbol;

/** What a step decided. Made by `ctx.next`, `ctx.retry`, `ctx.awaitSignal`, `ctx.scheduleChildren`, `ctx.done`, `ctx.stop`. */
export interface Outcome {
  readonly [opaque]: "Outcome";
}

/** What the methods of `ctx` were given: the user's values, not yet checked (decide.ts does). */
export type OutcomeDraft =
  | { kind: "next"; step: unknown; state: unknown; options: unknown }
  | { kind: "retry"; state: unknown; options: unknown }
  | { kind: "await"; names: unknown; step: unknown; state: unknown; options: unknown }
  | { kind: "children"; step: unknown; children: unknown; state: unknown }
  | { kind: "done"; result: unknown }
  | { kind: "stop"; reason: unknown };

/** What an outcome was made of; undefined when the value is no outcome. */
export function draftOf(outcome: unknown): OutcomeDraft | undefined {
  if (typeof outcome !== "object" || outcome === null || !Object.hasOwn(outcome, OUTCOME)) return undefined;
  return Reflect.get(outcome, OUTCOME) as OutcomeDraft; // only `make` below sets the symbol
}

/** The outcome methods of one `ctx`: bound, so that they can be destructured. */
export interface OutcomeMethods {
  readonly next: (step: unknown, state: unknown, options?: unknown) => Outcome;
  readonly retry: (state: unknown, options?: unknown) => Outcome;
  readonly awaitSignal: (names: unknown, nextStep: unknown, state: unknown, options?: unknown) => Outcome;
  readonly scheduleChildren: (nextStep: unknown, children: unknown, state: unknown) => Outcome;
  readonly done: (result?: unknown) => Outcome;
  readonly stop: (reason: unknown) => Outcome;
}

/** Makes the outcomes of one call of user code (a step, or `handle`) and remembers them until it returns. */
export class OutcomeMaker {
  readonly methods: OutcomeMethods;
  #made: Outcome | undefined;
  #madeCount = 0;

  constructor() {
    this.methods = {
      next: (step, state, options) => this.#make({ kind: "next", step, state, options }),
      retry: (state, options) => this.#make({ kind: "retry", state, options }),
      awaitSignal: (names, step, state, options) =>
        this.#make({ kind: "await", names, step, state, options }),
      scheduleChildren: (step, children, state) => this.#make({ kind: "children", step, children, state }),
      done: (result) => this.#make({ kind: "done", result }),
      stop: (reason) => this.#make({ kind: "stop", reason }),
    };
  }

  /** The draft of what user code returned. @throws UsageError NOT_AN_OUTCOME, OUTCOME_DROPPED, FOREIGN_OUTCOME */
  draftOfReturned(returned: unknown, step: string): OutcomeDraft {
    const draft = draftOf(returned);
    if (draft === undefined) throw notAnOutcome(returned, step, this.#made);
    if (returned === this.#made && this.#madeCount === 1) return draft;
    if (this.#madeCount === 0)
      throw new UsageError(
        "FOREIGN_OUTCOME",
        `step "${step}" returned an outcome that another run had made; make it with this run's ctx`,
        { step },
      );
    throw new UsageError(
      "OUTCOME_DROPPED",
      `step "${step}" made ${this.#madeCount} outcomes and returned one (ctx.${methodOf(draft)}); is a "return" missing?`,
      { step, made: this.#madeCount },
    );
  }

  #make(draft: OutcomeDraft): Outcome {
    const outcome = Object.freeze({ [OUTCOME]: draft }) as unknown as Outcome; // opaque: users see no property
    this.#made = outcome;
    this.#madeCount++;
    return outcome;
  }
}

function notAnOutcome(returned: unknown, step: string, made: Outcome | undefined): UsageError {
  const draft = draftOf(made);
  const hint =
    draft === undefined
      ? "return what ctx.next, ctx.retry, ctx.awaitSignal, ctx.scheduleChildren, ctx.done or ctx.stop gives"
      : `it made ctx.${methodOf(draft)}(...) without returning it; is a "return" missing?`;
  return new UsageError("NOT_AN_OUTCOME", `step "${step}" returned ${describe(returned)}: ${hint}`, { step });
}

function methodOf(draft: OutcomeDraft): keyof OutcomeMethods {
  if (draft.kind === "await") return "awaitSignal";
  return draft.kind === "children" ? "scheduleChildren" : draft.kind;
}
