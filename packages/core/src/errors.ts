// Errors: one base class, three kinds. Usage errors are the caller's mistake and say the fix; transient errors
// are the database's or a thread's and are retried by us; invariant errors are our bugs and stop the thread.

export type ErrorKind = "usage" | "transient" | "invariant";

export interface ErrorFacts {
  /** Where in the caller's input the mistake is, as a path of keys: `queues.default`, `children[3].state.order`. */
  path?: string;
  cause?: unknown;
  [fact: string]: unknown;
}

/** The base of every error this engine throws. `code` is stable and starts with `ERR_GEN_DURABLE_`. */
export class GenDurableError extends Error {
  readonly code: string;
  readonly kind: ErrorKind;
  readonly path: string | undefined;
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(kind: ErrorKind, code: string, message: string, facts: ErrorFacts = {}) {
    const { cause, path, ...rest } = facts;
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.kind = kind;
    this.code = `ERR_GEN_DURABLE_${code}`;
    this.path = path;
    this.facts = rest;
  }

  /** Whether the same call may succeed later without a change by the caller. */
  get retryable(): boolean {
    return this.kind === "transient";
  }
}

/** The caller's mistake; thrown before anything is written. */
export class UsageError extends GenDurableError {
  constructor(code: string, message: string, facts?: ErrorFacts) {
    super("usage", code, message, facts);
  }
}

/** The database or a thread failed; the engine retries these itself. */
export class TransientError extends GenDurableError {
  constructor(code: string, message: string, facts?: ErrorFacts) {
    super("transient", code, message, facts);
  }
}

/** A fact that the engine relies on does not hold: a bug of ours. The thread stops and leases recover the work. */
export class InvariantError extends GenDurableError {
  constructor(message: string, facts?: ErrorFacts) {
    super("invariant", "INVARIANT", message, facts);
  }
}

/**
 * The stored state of an instance does not fit its machine's schema any more: the schema has changed under it. Handed to
 * `handle`, whose `ctx.state` is then the stored JSON as it is. `path` is where it does not fit.
 */
export class StoredStateError extends GenDurableError {
  constructor(facts: {
    fsm: string;
    version: number;
    step: string;
    path: string;
    message: string;
    cause: unknown;
  }) {
    const { message, fsm, version, step, path, cause } = facts;
    super("usage", "STORED_STATE", `the stored state does not fit ${fsm} v${version}: ${message}`, {
      fsm,
      version,
      step,
      path,
      cause,
    });
  }
}

/** The stored step of an instance is not there any more: the machine has changed under it. Handed to `handle`. */
export class UnknownStepError extends GenDurableError {
  constructor(facts: { fsm: string; version: number; step: string; steps: readonly string[] }) {
    const { fsm, version, step, steps } = facts;
    super("usage", "UNKNOWN_STEP", `${fsm} v${version} has no step "${step}"; it has ${steps.join(", ")}`, {
      fsm,
      version,
      step,
    });
  }
}

/** A step ran past its `timeoutMs`; handed to `handle`. */
export class StepTimeoutError extends GenDurableError {
  constructor(step: string, timeoutMs: number) {
    super("usage", "STEP_TIMEOUT", `step "${step}" was still running after its timeout of ${timeoutMs} ms`, {
      step,
      timeoutMs,
    });
  }
}

/** A step's visit was begun and lost too often (`crashLimit`), or once where it must not run again; handed to `handle`. */
export class StepCrashedError extends GenDurableError {
  constructor(step: string, crashes: number) {
    super(
      "usage",
      "STEP_CRASHED",
      `step "${step}" had begun and was lost with its thread or node ${crashes} time${crashes === 1 ? "" : "s"}`,
      { step, crashes },
    );
  }
}

/** Why a running step is asked to end; a timeout has an error class of its own. */
export type StepAbortion = "cancelled" | "claim_lost" | "shutdown";

const ABORTIONS: Readonly<Record<StepAbortion, string>> = {
  cancelled: "its instance is being cancelled",
  claim_lost: "this node has lost its claim, so the outcome will not count",
  shutdown: "the node shuts down",
};

/** A running step is asked to end; the reason of its `ctx.signal`. */
export class StepAbortedError extends GenDurableError {
  readonly reason: StepAbortion;

  constructor(step: string, reason: StepAbortion) {
    super("transient", "STEP_ABORTED", `step "${step}" is asked to end: ${ABORTIONS[reason]}`, {
      step,
      reason,
    });
    this.reason = reason;
  }
}

/** Ends a `switch` over a union: a variant without a case fails to compile here. */
export function unreachable(value: never): never {
  throw new InvariantError(`unexpected variant: ${JSON.stringify(value)}`);
}
