// Context: the `ctx` of one call of user code. What is costly and seldom used is made when it is first asked for.

import type { RuntimeFsm } from "#core/definition/definition.js";
import type { OutcomeMaker, OutcomeMethods } from "#core/definition/outcome.js";
import { parseSignals } from "#core/definition/signals.js";
import type { ChildView, SignalOf, SignalTypes, StepContext, StepLog } from "#core/definition/stepContext.js";
import type { WakeReason } from "#core/instance.js";
import type { ClaimedRow } from "#core/protocol/row.js";

type Signal = SignalOf<SignalTypes>;

/** A signal that can be aborted before anybody has asked for it. */
export class LazySignal {
  #controller: AbortController | undefined;
  #reason: Error | undefined;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The first reason counts. */
  abort(reason: Error): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}

/** The unread signals of a row, oldest first, as they were stored. */
export function inboxOf(row: ClaimedRow): readonly Signal[] {
  return row.inbox === null ? [] : (JSON.parse(row.inbox) as Signal[]); // written by the claim
}

export interface ContextFacts {
  fsm: RuntimeFsm;
  row: ClaimedRow;
  state: unknown;
  maker: OutcomeMaker;
  signal: LazySignal;
  makeLog: () => StepLog;
}

/** Typed loosely here: a definition's own types have checked the step's code at its compile time. */
export class Context implements StepContext {
  readonly id: number;
  readonly fsm: string;
  readonly version: number;
  readonly step: string;
  readonly state: StepContext["state"];
  readonly attempt: number;
  readonly wokenBy: WakeReason | null;
  readonly cancelReason: string | null;
  readonly #facts: ContextFacts;
  #inbox: readonly Signal[] | undefined;
  #awaited: readonly Signal[] | undefined;
  #children: readonly ChildView[] | undefined;
  #log: StepLog | undefined;

  constructor(facts: ContextFacts) {
    const { row } = facts;
    this.#facts = facts;
    this.id = row.id;
    this.fsm = row.fsm;
    this.version = row.version;
    this.step = row.step;
    this.state = facts.state as StepContext["state"]; // what the machine's schema gave
    this.attempt = row.attempt;
    this.wokenBy = row.wokenBy;
    this.cancelReason = row.cancelReason;
  }

  get idempotencyKey(): string {
    const { row } = this.#facts;
    return `${row.id}:${row.step}:${row.visit}`;
  }

  /** @throws UsageError INVALID_PAYLOAD when a declared signal was stored past its schema: an error of the step that asks. */
  get inbox(): readonly Signal[] {
    this.#inbox ??= parseSignals(this.#facts.fsm, inboxOf(this.#facts.row), "inbox");
    return this.#inbox;
  }

  get awaited(): readonly Signal[] {
    this.#awaited ??= this.#readAwaited();
    return this.#awaited;
  }

  get children(): readonly ChildView[] {
    const { children } = this.#facts.row;
    this.#children ??= children === null ? [] : (JSON.parse(children) as ChildView[]); // written by the claim
    return this.#children;
  }

  get signal(): AbortSignal {
    return this.#facts.signal.signal;
  }

  get log(): StepLog {
    this.#log ??= this.#facts.makeLog();
    return this.#log;
  }

  get next(): OutcomeMethods["next"] {
    return this.#facts.maker.methods.next;
  }

  get retry(): OutcomeMethods["retry"] {
    return this.#facts.maker.methods.retry;
  }

  get awaitSignal(): OutcomeMethods["awaitSignal"] {
    return this.#facts.maker.methods.awaitSignal;
  }

  get scheduleChildren(): OutcomeMethods["scheduleChildren"] {
    return this.#facts.maker.methods.scheduleChildren;
  }

  get done(): OutcomeMethods["done"] {
    return this.#facts.maker.methods.done;
  }

  get stop(): OutcomeMethods["stop"] {
    return this.#facts.maker.methods.stop;
  }

  // By itself and not out of the whole inbox: what nobody awaits must not get in the way of what is awaited.
  #readAwaited(): readonly Signal[] {
    const { row, fsm } = this.#facts;
    if (row.awaits.length === 0) return [];
    const awaited = inboxOf(row).filter(({ name }) => row.awaits.includes(name));
    return parseSignals(fsm, awaited, "awaited");
  }
}
