// Outbox: what a session has to tell, gathered over one turn of the loop: packed outcomes to each flusher, and to the
// coordinator which rows have ended or were dropped.
//
// X1  Outcomes are posted before "ended": a row that the coordinator knows as ended has its outcome with its flusher,
//     whatever becomes of the thread.

import type { MessagePort } from "node:worker_threads";
import { packOutcomes } from "#core/protocol/codec.js";
import type { FromExecutor } from "#core/protocol/executor.js";
import type { WireOutcome } from "#core/protocol/outcome.js";

/** Characters of states and results after which outcomes are posted without waiting for the turn to end: a message is
 *  packed and copied whole. */
const OUTCOMES_LENGTH_MAX = 4 * 1024 * 1024;

export class Outbox {
  readonly #control: MessagePort;
  readonly #flusherPorts: readonly MessagePort[];
  readonly #outcomes: WireOutcome[][];
  #length = 0;
  #ended: number[] = [];
  #distrusted: number[] = [];

  constructor(control: MessagePort, flusherPorts: readonly MessagePort[]) {
    this.#control = control;
    this.#flusherPorts = flusherPorts;
    this.#outcomes = flusherPorts.map(() => []);
  }

  addOutcome(flusher: number, outcome: WireOutcome, options: { leaves: boolean }): void {
    this.#outcomes[flusher]?.push(outcome);
    if (options.leaves) this.#ended.push(outcome.seat, outcome.generation);
    this.#length += lengthOf(outcome);
    if (this.#length > OUTCOMES_LENGTH_MAX) this.post();
  }

  /** The rows of these tenancies have left the thread; their outcomes were posted before. */
  addEnded(tenancies: readonly number[]): void {
    this.#ended.push(...tenancies);
  }

  addDistrusted(seat: number, generation: number): void {
    this.#distrusted.push(seat, generation);
  }

  /** X1. */
  post(): void {
    this.#length = 0;
    for (const [flusher, outcomes] of this.#outcomes.entries()) {
      if (outcomes.length === 0) continue;
      this.#outcomes[flusher] = [];
      const batch = packOutcomes(outcomes);
      this.#flusherPorts[flusher]?.postMessage(batch, [batch.bytes.buffer]);
    }
    if (this.#ended.length > 0) {
      this.#tell({ type: "ended", tenancies: this.#ended });
      this.#ended = [];
    }
    if (this.#distrusted.length > 0) {
      this.#tell({ type: "distrusted", tenancies: this.#distrusted });
      this.#distrusted = [];
    }
  }

  #tell(message: FromExecutor): void {
    this.#control.postMessage(message);
  }
}

function lengthOf({ decision }: WireOutcome): number {
  switch (decision.kind) {
    case "done":
      return decision.result.length;
    case "stop":
      return decision.reason.length;
    case "children":
      return decision.children.reduce((sum, child) => sum + child.state.length, decision.state.length);
    default:
      return decision.state.length;
  }
}
