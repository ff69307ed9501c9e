// Arrivals: outcomes that wait for their commit: the queue of those that have just come, and those that were put off.
// A1  An arrival leaves only with its answer: until then its row is known to be spoken for.
// A2  What is put off comes back after a delay that grows with every time, so that a locked row costs little.

import { SEATS_MAX } from "#core/ledger.js";
import type { FlushedRow } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import type { Session } from "./sessions.js";
import { BATCH_BYTES_MAX } from "./trigger.js";

const PUT_OFF_DELAY_MS = 5;
const PUT_OFF_DELAY_MS_MAX = 500;
/** A row whose write has to wait costs its flush the lock timeout every time, so it comes back less often. */
const WAITED_DELAY_MS = 50;
const WAITED_DELAY_MS_MAX = 2_000;

export interface Arrival {
  /** Written anew only while it waits, never in a flush. */
  outcome: WireOutcome;
  bytes: number;
  session: Session | null;
  /** Its step wants to run on: the session has to be told whether it may. */
  runsAhead: boolean;
  arrivedAtMs: number;
  putOffTimes: number;
  notBeforeMs: number;
  /** Its write had to wait for somebody: it shares no batch with those that need not. */
  waits: boolean;
}

export class Arrivals {
  readonly #queue: Arrival[] = [];
  #queueBytes = 0;
  readonly #putOff = new Set<Arrival>();
  readonly #byRow = new Map<number, Arrival>();

  /** Everything that has no answer yet, in a flush or not. */
  get size(): number {
    return this.#byRow.size;
  }

  add(arrival: Arrival): void {
    this.#byRow.set(rowName(arrival.outcome), arrival);
    this.#queue.push(arrival);
    this.#queueBytes += arrival.bytes;
  }

  has(row: FlushedRow): boolean {
    return this.#byRow.has(rowName(row));
  }

  /** The queue as the trigger sees it. */
  facts(): { count: number; bytes: number; firstAtMs: number } {
    return {
      count: this.#queue.length,
      bytes: this.#queueBytes,
      firstAtMs: this.#queue[0]?.arrivedAtMs ?? Number.POSITIVE_INFINITY,
    };
  }

  /** When the next put-off arrival is due; Infinity: none. */
  putOffDueAtMs(): number {
    let dueAtMs = Number.POSITIVE_INFINITY;
    for (const { notBeforeMs } of this.#putOff) dueAtMs = Math.min(dueAtMs, notBeforeMs);
    return dueAtMs;
  }

  /** Takes a batch out of the queue, after what was put off and is due. */
  takeBatch(maxBatch: number, nowMs: number): Arrival[] {
    const batch = this.#takePutOff(maxBatch, nowMs, false);
    let bytes = batch.reduce((sum, arrival) => sum + arrival.bytes, 0);
    let count = 0;
    for (const arrival of this.#queue) {
      if (batch.length >= maxBatch || (batch.length > 0 && bytes + arrival.bytes > BATCH_BYTES_MAX)) break;
      batch.push(arrival);
      bytes += arrival.bytes;
      this.#queueBytes -= arrival.bytes;
      count++;
    }
    this.#queue.splice(0, count);
    return batch;
  }

  /** Takes due arrivals whose write has to wait; they flush among themselves. */
  takeWaiting(maxBatch: number, nowMs: number): Arrival[] {
    return this.#takePutOff(maxBatch, nowMs, true);
  }

  putOff(arrival: Arrival, reason: "locked" | "waited", nowMs: number): void {
    arrival.waits = reason === "waited";
    const [first, max] = arrival.waits
      ? [WAITED_DELAY_MS, WAITED_DELAY_MS_MAX]
      : [PUT_OFF_DELAY_MS, PUT_OFF_DELAY_MS_MAX];
    const delayMs = Math.min(first * 2 ** Math.min(arrival.putOffTimes, 20), max);
    arrival.putOffTimes++;
    arrival.notBeforeMs = nowMs + delayMs * (0.75 + Math.random() / 2);
    this.#putOff.add(arrival);
  }

  /** Forgets an arrival that has its answer. */
  answered(arrival: Arrival): void {
    this.#byRow.delete(rowName(arrival.outcome));
  }

  #takePutOff(max: number, nowMs: number, waits: boolean): Arrival[] {
    const due: Arrival[] = [];
    for (const arrival of this.#putOff) {
      if (due.length >= max) break;
      if (arrival.waits !== waits || arrival.notBeforeMs > nowMs) continue;
      this.#putOff.delete(arrival);
      due.push(arrival);
    }
    return due;
  }
}

/** A tenancy as one number: a seat's generations count its tenancies, far below 2^38. */
function rowName({ seat, generation }: FlushedRow): number {
  return generation * SEATS_MAX + seat;
}
