// Ledger: the shared memory of one node. Facts that a thread must be able to read about a thread that is blocked or
// dead cannot travel by message; they stand here. Created by the coordinator, handed to executors and flushers.
//
// A **seat** is the place of one held row (claimed, not yet flushed or handed back). Its mark says how far the row got:
//
//   free --seat()--> assigned --begin()--> begun --end()--> ended --release()--> free
//                    assigned --recall()--> free
//   ended --chain()--> chained --beginChained()--> begun        (its next step runs ahead, under the same claim)
//                      chained --recallChained()--> free
//
// L1  begin() and recall() are one compare-and-swap on the same word: a row is either begun by its thread or taken
//     back by the coordinator, never both, even when the thread is blocked and answers no message.
// L2  The mark carries a generation that grows with every use of the seat, so a thread that still holds an old row
//     cannot begin the next tenant of its seat.
// L3  Only rows whose mark is begun (or ended) when their thread dies had run user code; only those get a crash.
// L4  A permit is the right of one row of a queue to run user code in one thread. Permits granted but unused stand in
//     the ledger; thread and coordinator both take them by compare-and-swap, so an unused permit of a blocked thread
//     can be taken back.
// L5  A row is chained by its flusher, after the commit and before anybody hears of it: whoever finds the mark knows that
//     what the row's thread was sent is not what stands in the database any more, and that no step of it has begun.
// L6  A time limit is that of the step which runs: its thread writes it after begin(), and it is none before. So nobody holds a
//     step to the limit of the one before it, whatever he has not heard of yet.

import { InvariantError } from "./errors.js";

/** Rows that one node holds at most: claimed and not yet committed or handed back. */
export const SEATS_MAX = 32_768;

const STATE_BITS = 3;
const STATE_MASK = (1 << STATE_BITS) - 1;
const GENERATION_MASK = (1 << 28) - 1;
const MARKS = ["free", "assigned", "begun", "ended", "chained"] as const;
export type SeatMark = (typeof MARKS)[number];
const FREE = 0;
const ASSIGNED = 1;
const BEGUN = 2;
const ENDED = 3;
const CHAINED = 4;

export interface LedgerShape {
  threads: number;
  queues: number;
  flushers: number;
}

/** What travels to another thread: the same memory, not a copy. */
export interface LedgerMemory extends LedgerShape {
  buffer: SharedArrayBuffer;
}

export class Ledger {
  readonly memory: LedgerMemory;
  readonly #marks: Int32Array;
  readonly #begunAtMs: Float64Array;
  readonly #trustedUntilMs: Float64Array;
  readonly #limitMs: Float64Array;
  readonly #permits: Int32Array;
  readonly #ticks: Int32Array;
  readonly #onTheWay: Int32Array;
  readonly #pendingBytes: Int32Array;
  readonly #observed: Int32Array;

  static create(shape: LedgerShape): Ledger {
    const words =
      SEATS_MAX +
      shape.threads * shape.queues +
      shape.threads +
      shape.threads * shape.flushers +
      shape.flushers +
      1;
    return new Ledger({ ...shape, buffer: new SharedArrayBuffer(SEATS_MAX * 24 + words * 4) });
  }

  constructor(memory: LedgerMemory) {
    this.memory = memory;
    const { buffer, threads, queues, flushers } = memory;
    let offset = 0;
    const floats = (length: number): Float64Array => {
      const view = new Float64Array(buffer, offset, length);
      offset += length * 8;
      return view;
    };
    const ints = (length: number): Int32Array => {
      const view = new Int32Array(buffer, offset, length);
      offset += length * 4;
      return view;
    };
    this.#begunAtMs = floats(SEATS_MAX);
    this.#trustedUntilMs = floats(SEATS_MAX);
    this.#limitMs = floats(SEATS_MAX);
    this.#marks = ints(SEATS_MAX);
    this.#permits = ints(threads * queues);
    this.#ticks = ints(threads);
    this.#onTheWay = ints(threads * flushers);
    this.#pendingBytes = ints(flushers);
    this.#observed = ints(1);
  }

  // --- seats: seat(), the recalls and release() are the coordinator's, the begins and end() the executor's, chain() the flusher's

  /** Takes a free seat for a row whose claim is trusted until `trustedUntilMs`. Returns the tenancy's generation. */
  seat(seat: number, trustedUntilMs: number): number {
    const mark = Atomics.load(this.#marks, seat);
    if ((mark & STATE_MASK) !== FREE) throw new InvariantError(`seat ${seat} is taken`);
    const generation = ((mark >>> STATE_BITS) + 1) & GENERATION_MASK;
    this.#trustedUntilMs[seat] = trustedUntilMs;
    this.#begunAtMs[seat] = 0;
    this.#limitMs[seat] = 0;
    Atomics.store(this.#marks, seat, (generation << STATE_BITS) | ASSIGNED);
    return generation;
  }

  /** Marks that user code of the row begins now. False when the row was recalled: the caller forgets it. */
  begin(seat: number, generation: number, nowMs: number): boolean {
    return this.#beginFrom(ASSIGNED, seat, generation, nowMs);
  }

  /** The same for the next step of a row that runs ahead. False when it was taken back. */
  beginChained(seat: number, generation: number, nowMs: number): boolean {
    return this.#beginFrom(CHAINED, seat, generation, nowMs);
  }

  /** L5. The outcome of an ended row is committed and its next step is to run under the same claim; it waits from `nowMs`. */
  chain(seat: number, generation: number, nowMs: number): void {
    if (Atomics.load(this.#marks, seat) !== ((generation << STATE_BITS) | ENDED)) return;
    this.#limitMs[seat] = 0;
    this.#begunAtMs[seat] = nowMs;
    this.#change(seat, generation, ENDED, CHAINED);
  }

  /** Takes back a row whose next step was to run ahead and has not begun, and frees its seat. False when it has begun. */
  recallChained(seat: number, generation: number): boolean {
    return this.#change(seat, generation, CHAINED, FREE);
  }

  /** Whether this tenancy's next step is committed and has not begun. */
  isChained(seat: number, generation: number): boolean {
    return Atomics.load(this.#marks, seat) === ((generation << STATE_BITS) | CHAINED);
  }

  /** Marks that user code of the row has returned; its outcome is on the way. */
  end(seat: number, generation: number): void {
    this.#change(seat, generation, BEGUN, ENDED);
  }

  /** Takes back a row that has not begun, and frees its seat. False when it has begun. */
  recall(seat: number, generation: number): boolean {
    return this.#change(seat, generation, ASSIGNED, FREE);
  }

  /** Frees the seat of a row that is no longer held, whatever its mark. */
  release(seat: number, generation: number): void {
    Atomics.store(this.#marks, seat, (generation << STATE_BITS) | FREE);
  }

  /** Whether this tenancy of the seat has neither begun nor been taken back. */
  isAssigned(seat: number, generation: number): boolean {
    return Atomics.load(this.#marks, seat) === ((generation << STATE_BITS) | ASSIGNED);
  }

  /** User code of a begun row starts anew: its `handle`. Time limits count from here. Nothing where the tenancy is over. */
  beginAgain(seat: number, generation: number, nowMs: number): void {
    if (this.#isBegun(seat, generation)) this.#begunAtMs[seat] = nowMs;
  }

  /** L6. The step that has begun must not run for longer, milliseconds. Nothing where the tenancy is over. */
  limit(seat: number, generation: number, limitMs: number): void {
    if (this.#isBegun(seat, generation)) this.#limitMs[seat] = limitMs;
  }

  /** L6. Whether the seat's user code has run for `graceMs` more than it may. Asked of a begun row. */
  isPastLimit(seat: number, graceMs: number, nowMs: number): boolean {
    // In this order: a limit that is read of an earlier step meets a later begin, never the other way round.
    const limitMs = this.limitMs(seat);
    const begunAtMs = this.begunAtMs(seat);
    return limitMs > 0 && begunAtMs > 0 && nowMs > begunAtMs + limitMs + graceMs;
  }

  /** L6. 0: none. */
  limitMs(seat: number): number {
    return this.#limitMs[seat] ?? 0;
  }

  mark(seat: number): SeatMark {
    return MARKS[(Atomics.load(this.#marks, seat) & STATE_MASK) as 0 | 1 | 2 | 3 | 4];
  }

  /** The monotonic time at which user code of the seat's row began; 0 before. Of a chained row: since when it waits. */
  begunAtMs(seat: number): number {
    return this.#begunAtMs[seat] ?? 0;
  }

  /** The monotonic time up to which this node may believe that it owns the row. */
  trustedUntilMs(seat: number): number {
    return this.#trustedUntilMs[seat] ?? 0;
  }

  trustUntil(seat: number, trustedUntilMs: number): void {
    this.#trustedUntilMs[seat] = trustedUntilMs;
  }

  #beginFrom(state: number, seat: number, generation: number, nowMs: number): boolean {
    if (Atomics.load(this.#marks, seat) !== ((generation << STATE_BITS) | state)) return false;
    this.#begunAtMs[seat] = nowMs;
    return this.#change(seat, generation, state, BEGUN);
  }

  #isBegun(seat: number, generation: number): boolean {
    return Atomics.load(this.#marks, seat) === ((generation << STATE_BITS) | BEGUN);
  }

  #change(seat: number, generation: number, from: number, to: number): boolean {
    const base = generation << STATE_BITS;
    return Atomics.compareExchange(this.#marks, seat, base | from, base | to) === (base | from);
  }

  // --- permits ------------------------------------------------------------------------------------------------------

  /** Adds unused permits: the coordinator grants them, a thread puts back the one whose row has ended. */
  putPermits(thread: number, queue: number, count: number): void {
    Atomics.add(this.#permits, thread * this.memory.queues + queue, count);
  }

  /** Takes up to `count` unused permits; returns how many. */
  takePermits(thread: number, queue: number, count: number): number {
    const index = thread * this.memory.queues + queue;
    for (;;) {
      const unused = Atomics.load(this.#permits, index);
      const taken = Math.min(unused, count);
      if (taken <= 0) return 0;
      if (Atomics.compareExchange(this.#permits, index, unused, unused - taken) === unused) return taken;
    }
  }

  unusedPermits(thread: number, queue: number): number {
    return Atomics.load(this.#permits, thread * this.memory.queues + queue);
  }

  /** Forgets a dead thread's permits and counters; the coordinator calls it before the thread's place is used again. */
  resetThread(thread: number): void {
    for (let queue = 0; queue < this.memory.queues; queue++) {
      Atomics.store(this.#permits, thread * this.memory.queues + queue, 0);
    }
  }

  // --- is the thread's loop turning? ---------------------------------------------------------------------------------

  /** Counts one turn of the thread's event loop. */
  tick(thread: number): void {
    Atomics.add(this.#ticks, thread, 1);
  }

  ticks(thread: number): number {
    return Atomics.load(this.#ticks, thread);
  }

  // --- outcomes between executor and flusher ----------------------------------------------------------------------

  /** A step for this flusher has returned in this thread; its outcome has not reached the flusher yet. */
  outcomeLeaves(thread: number, flusher: number): void {
    Atomics.add(this.#onTheWay, thread * this.memory.flushers + flusher, 1);
  }

  /** Outcomes have reached the flusher, or were given up by the thread. */
  outcomesArrive(thread: number, flusher: number, count: number): void {
    Atomics.sub(this.#onTheWay, thread * this.memory.flushers + flusher, count);
  }

  /** The thread is dead and its port drained: nothing more of it is on the way. Called by the flusher. */
  nothingOnTheWay(thread: number, flusher: number): void {
    Atomics.store(this.#onTheWay, thread * this.memory.flushers + flusher, 0);
  }

  /** Outcomes of returned steps that have not reached the flusher yet. */
  onTheWay(flusher: number): number {
    let sum = 0;
    for (let thread = 0; thread < this.memory.threads; thread++) {
      sum += Atomics.load(this.#onTheWay, thread * this.memory.flushers + flusher);
    }
    return sum;
  }

  /** Bytes of outcomes that wait for their commit: the flusher adds on arrival and subtracts after the commit. */
  addPendingBytes(flusher: number, bytes: number): void {
    Atomics.add(this.#pendingBytes, flusher, bytes);
  }

  pendingBytes(flusher: number): number {
    return Atomics.load(this.#pendingBytes, flusher);
  }

  // --- is anybody looking? --------------------------------------------------------------------------------------------

  /** Somebody subscribes to the event of each step, or nobody does any more: flushers then send none. */
  observeSteps(isObserved: boolean): void {
    Atomics.store(this.#observed, 0, isObserved ? 1 : 0);
  }

  get areStepsObserved(): boolean {
    return Atomics.load(this.#observed, 0) === 1;
  }
}
