// Chains: rows whose next step runs ahead in this thread: what has been decided, and what is still to be known of it.
//
//   running -> waiting for its commit, and for its admission where it needs one -> ready, in its lane -> running
//
// H1  No user code of a row runs here from its outcome to the news of its commit.
// H2  A chain is cut at its next outcome, as if it had not been asked to run ahead, when the node shuts down, when it has had its
//     time, when its next key is no gate, when its next step must be on record before it begins, and after a crash.
// H3  The news of commit and admission travel over two ports, in any order.

import type { RuntimeFsm } from "#core/definition/definition.js";
import { nameOfKey } from "#core/key.js";
import type { AbortReason } from "#core/protocol/executor.js";
import type { ToRunner } from "#core/protocol/flusher.js";
import type { Decision, WireOutcome } from "#core/protocol/outcome.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import type { Lane } from "./lane.js";

/** A row between two of its steps. */
export interface Chain {
  /** The row as its next step finds it. */
  row: ClaimedRow;
  readonly lane: Lane;
  /** When the first step under this claim began, monotonic milliseconds. */
  readonly sinceMs: number;
  isCommitted: boolean;
  isAdmitted: boolean;
  /** Why `ctx.signal` of its next step is to abort. */
  abortion: AbortReason | null;
}

export interface ChainRules {
  gateNames: readonly string[];
  inlineMaxMs: number;
}

type Next = Extract<Decision, { kind: "next" }>;

export class Chains {
  readonly #gateNames: ReadonlySet<string>;
  readonly #inlineMaxMs: number;
  readonly #byTenancy = new Map<number, Chain>();
  /** No step runs ahead any more: the node shuts down. */
  isClosed = false;

  constructor({ gateNames, inlineMaxMs }: ChainRules) {
    this.#gateNames = new Set(gateNames);
    this.#inlineMaxMs = inlineMaxMs;
  }

  get size(): number {
    return this.#byTenancy.size;
  }

  /** H2. Whether the next step of the row runs ahead; `ranMs`: for how long its chain has had the claim. */
  mayRunAhead(row: ClaimedRow, fsm: RuntimeFsm, decision: Next, ranMs: number): boolean {
    if (!decision.inline || this.isClosed || ranMs >= this.#inlineMaxMs) return false;
    // Where its last begin ended its thread, it runs alone, and its thread is lent.
    if (row.crashes > 0) return false;
    if (fsm.steps.get(decision.step)?.rerunAfterCrash === false) return false;
    // A key that is no gate admits one row: the index decides who, at the claim.
    return typeof decision.key !== "string" || this.#gateNames.has(nameOfKey(decision.key));
  }

  /** H1. The row's outcome leaves; its next step waits here. */
  add(row: ClaimedRow, { decision }: WireOutcome, place: { lane: Lane; sinceMs: number }): void {
    if (decision.kind !== "next") return;
    const needsAdmission = decision.rateLimit !== null || typeof decision.key === "string";
    this.#byTenancy.set(nameOf(row.seat, row.generation), {
      row: nextRow(row, decision),
      lane: place.lane,
      sinceMs: place.sinceMs,
      isCommitted: false,
      isAdmitted: !needsAdmission,
      abortion: null,
    });
  }

  /** Returns the chains that are ready now: they go into their lanes, and are remembered until they are `taken`. */
  committed({ tenancies, inputs }: Extract<ToRunner, { type: "committed" }>): Chain[] {
    for (const { seat, generation, inbox, children } of inputs) {
      const chain = this.#byTenancy.get(nameOf(seat, generation));
      if (chain === undefined) continue;
      chain.row.inbox = inbox;
      chain.row.children = children;
    }
    return this.#become(tenancies, (chain) => {
      chain.isCommitted = true;
    });
  }

  admitted(tenancies: readonly number[]): Chain[] {
    return this.#become(tenancies, (chain) => {
      chain.isAdmitted = true;
    });
  }

  /** The chain's next step begins, or never will. */
  forget({ seat, generation }: Pick<ClaimedRow, "seat" | "generation">): boolean {
    return this.#byTenancy.delete(nameOf(seat, generation));
  }

  /** False when no such chain is here. */
  abort(seat: number, generation: number, reason: AbortReason): boolean {
    const chain = this.#byTenancy.get(nameOf(seat, generation));
    if (chain === undefined) return false;
    chain.abortion ??= reason;
    return true;
  }

  #become(tenancies: readonly number[], change: (chain: Chain) => void): Chain[] {
    const ready: Chain[] = [];
    for (let index = 0; index < tenancies.length; index += 2) {
      const chain = this.#byTenancy.get(nameOf(tenancies[index] ?? 0, tenancies[index + 1] ?? 0));
      if (chain === undefined) continue;
      const wasReady = chain.isCommitted && chain.isAdmitted;
      change(chain);
      if (!wasReady && chain.isCommitted && chain.isAdmitted) ready.push(chain);
    }
    return ready;
  }
}

/** A seat's number has 15 bits, a generation 28: together they are an exact number. */
function nameOf(seat: number, generation: number): number {
  return seat * 2 ** 28 + generation;
}

/** What the commit has made of the row. */
function nextRow(row: ClaimedRow, { step, state }: Next): ClaimedRow {
  // Spelt out: a spread costs microseconds.
  return {
    id: row.id,
    claim: row.claim,
    seat: row.seat,
    generation: row.generation,
    fsm: row.fsm,
    version: row.version,
    step,
    state,
    attempt: 0,
    visit: row.visit + 1,
    crashes: 0,
    reaps: 0,
    queue: row.queue,
    priority: row.priority,
    awaits: [],
    awaitSeen: [],
    wokenBy: null,
    inbox: null,
    children: null,
    parentId: row.parentId,
    parentVisit: row.parentVisit,
    cancelReason: row.cancelReason,
    verdict: null,
  };
}
