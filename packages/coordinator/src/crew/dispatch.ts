// Dispatch: rows on their way to threads: which one each goes to, and in which message.
//
// D1  A row goes where the fewest rows a permit run or wait, so that a handful of rows starts everywhere at once and a
//     long batch keeps every thread equally busy. Rows for which no thread has a permit wait here.
// D2  A row that has crashed before goes to quarantine, never here.

import type { MessagePort } from "node:worker_threads";
import { monotonicMs } from "#core/clock.js";
import { packRows } from "#core/protocol/codec.js";
import type { ToExecutor } from "#core/protocol/executor.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import type { HeldRow, HeldTable } from "../held.js";
import { CHUNK_LENGTH_MAX, CHUNK_ROWS_MAX } from "./bounds.js";
import type { Member } from "./member.js";
import type { Permits } from "./permits.js";
import type { TimeLimits } from "./timeLimits.js";

interface Candidate {
  member: Member;
  permits: number;
  /** Rows of the queue that run or wait there. */
  load: number;
}

export class Dispatch {
  readonly #members: readonly Member[];
  readonly #permits: Permits;
  readonly #held: HeldTable;
  readonly #limits: TimeLimits;
  /** By queue: rows that no thread can take yet, in the order of their claims. */
  readonly #backlog: HeldRow[][];
  /** Rows among the chosen whose signals are to abort. */
  #aborted: HeldRow[] = [];
  #turn = 0;

  constructor(options: {
    members: readonly Member[];
    permits: Permits;
    held: HeldTable;
    limits: TimeLimits;
    queues: number;
  }) {
    this.#members = options.members;
    this.#permits = options.permits;
    this.#held = options.held;
    this.#limits = options.limits;
    this.#backlog = Array.from({ length: options.queues }, () => []);
  }

  get hasBacklog(): boolean {
    return this.#backlog.some((rows) => rows.length > 0);
  }

  add(held: HeldRow): void {
    this.#backlog[held.queueIndex]?.push(held);
  }

  /** Puts rows that were taken back from a thread before all others, as a new tenancy of their seats. */
  putBack(rows: readonly HeldRow[]): void {
    for (const held of rows) this.#held.reseat(held);
    for (const [queue, backlog] of this.#backlog.entries()) {
      const ofQueue = rows.filter((held) => held.queueIndex === queue);
      if (ofQueue.length > 0) this.#backlog[queue] = [...ofQueue, ...backlog];
    }
  }

  /** Rows of the queue that have not begun, here or in a thread. */
  unstarted(queue: number): number {
    let sum = this.#backlog[queue]?.length ?? 0;
    for (const member of this.#members) sum += member.lane(queue).unstarted;
    return sum;
  }

  /** Empties the backlog. */
  takeBacklog(): HeldRow[] {
    return this.#backlog.flatMap((rows, queue) => {
      this.#backlog[queue] = [];
      return rows;
    });
  }

  /** Settles the permits and sends what can be sent. */
  distribute(): void {
    for (const [queue, backlog] of this.#backlog.entries()) {
      this.#permits.settle(queue, wake);
      if (backlog.length > 0) this.#distributeQueue(queue, backlog);
    }
    for (const member of this.#members) this.#sendChosen(member);
    if (this.#aborted.length > 0) this.#sendAborts();
  }

  /** Sends one row to one thread, whatever else is there. */
  send(member: Member, held: HeldRow): void {
    this.#choose(member, held, monotonicMs());
    this.#sendChosen(member);
    if (this.#aborted.length > 0) this.#sendAborts();
  }

  /** D1. */
  #distributeQueue(queue: number, backlog: readonly HeldRow[]): void {
    const candidates = this.#candidates(queue);
    if (candidates.length === 0) return;
    this.#backlog[queue] = [];
    const nowMs = monotonicMs();
    for (const held of backlog) {
      const candidate = leastLoaded(candidates);
      candidate.load++;
      this.#choose(candidate.member, held, nowMs);
    }
  }

  #candidates(queue: number): Candidate[] {
    const candidates: Candidate[] = [];
    // Ties go round, so that single rows do not all meet in the first thread.
    const first = this.#turn++;
    for (let offset = 0; offset < this.#members.length; offset++) {
      const member = this.#members[(first + offset) % this.#members.length];
      const permits = member?.granted[queue] ?? 0;
      if (member === undefined || !member.takesWork || permits === 0) continue;
      // A chain between two steps uses no permit, and will in a moment: its thread is not idle.
      const busy = Math.max(this.#permits.inUseOf(member, queue), member.chains.size);
      const load = busy + member.lane(queue).unstarted;
      candidates.push({ member, permits, load });
    }
    return candidates;
  }

  #choose(member: Member, held: HeldRow, nowMs: number): void {
    held.thread = member.index;
    held.dispatchedAtMs = nowMs;
    if (this.#limits.has(held.row)) member.limited.add(held);
    member.lane(held.queueIndex).push(held);
    // A loop that had nothing to do did not turn.
    if (member.outstanding === 0) member.tickedAtMs = nowMs;
    member.outstanding++;
    member.chosen.push(held.row);
    if (held.abortion !== null) this.#aborted.push(held);
  }

  #sendChosen(member: Member): void {
    const { chosen, control } = member;
    if (chosen.length === 0) return;
    member.chosen = [];
    let chunk: ClaimedRow[] = [];
    let length = 0;
    for (const row of chosen) {
      const rowLength = row.state.length + (row.inbox?.length ?? 0) + (row.children?.length ?? 0);
      if (chunk.length === CHUNK_ROWS_MAX || (chunk.length > 0 && length + rowLength > CHUNK_LENGTH_MAX)) {
        sendChunk(control, chunk);
        chunk = [];
        length = 0;
      }
      chunk.push(row);
      length += rowLength;
    }
    sendChunk(control, chunk);
  }

  /** After their rows: a thread takes messages in order. */
  #sendAborts(): void {
    for (const { row, thread, abortion } of this.#aborted) {
      if (thread === null || abortion === null) continue;
      const { seat, generation } = row;
      const message: ToExecutor = { type: "abort", seat, generation, reason: abortion };
      this.#members[thread]?.control?.postMessage(message);
    }
    this.#aborted = [];
  }
}

function leastLoaded(candidates: readonly Candidate[]): Candidate {
  let best = candidates[0] as Candidate; // never called without one
  for (const candidate of candidates) {
    if (candidate === best) continue;
    const difference = candidate.load * best.permits - best.load * candidate.permits;
    if (difference < 0 || (difference === 0 && candidate.member.outstanding < best.member.outstanding))
      best = candidate;
  }
  return best;
}

function sendChunk(control: MessagePort | undefined, rows: readonly ClaimedRow[]): void {
  const batch = packRows(rows);
  control?.postMessage({ type: "chunk", rows: batch } satisfies ToExecutor, [batch.bytes.buffer]);
}

/** Rows may have waited in the thread for the permits that it has just got. */
function wake(member: Member): void {
  if (member.unstarted() > 0) member.control?.postMessage({ type: "permits" } satisfies ToExecutor);
}
