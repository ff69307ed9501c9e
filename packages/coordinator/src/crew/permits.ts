// Permits: which thread may run how many rows of a queue. Spread evenly over the threads that take work, so that all
// cores are used, and moved only when that set changes.
//
// M1  The permits of a queue, in the ledger or in use, never add up to more than its concurrency.
// M2  An unused permit of a thread that takes no work comes back at once, whether or not its loop turns. One in use
//     comes back when its row ends, or its thread.
// M3  A permit stays where it is when that is as even as moving it: rows wait where their permits are.

import type { Ledger } from "#core/ledger.js";
import type { Member } from "./member.js";

export class Permits {
  readonly #ledger: Ledger;
  readonly #concurrency: readonly number[];
  readonly #members: readonly Member[];
  /** Queues whose permits do not stand as they should: `settle` has something to do. */
  readonly #unsettled: boolean[];
  /** By queue: permits kept back for a quarantined row that waits for one. */
  readonly #reserved: number[];

  constructor(ledger: Ledger, concurrency: readonly number[], members: readonly Member[]) {
    this.#ledger = ledger;
    this.#concurrency = concurrency;
    this.#members = members;
    this.#unsettled = concurrency.map(() => true);
    this.#reserved = concurrency.map(() => 0);
  }

  /** Threads that take work have come or gone. */
  unsettle(): void {
    this.#unsettled.fill(true);
  }

  /** Rows of the queue that run user code now. */
  inUse(queue: number): number {
    let inUse = 0;
    for (const member of this.#members) inUse += this.inUseOf(member, queue);
    return inUse;
  }

  inUseOf(member: Member, queue: number): number {
    return (member.granted[queue] ?? 0) - this.#ledger.unusedPermits(member.index, queue);
  }

  /** Rows of the queue that could begin now; 0 while no thread takes work. */
  free(queue: number): number {
    if (!this.#members.some((member) => member.takesWork)) return 0;
    return Math.max(0, (this.#concurrency[queue] ?? 0) - this.inUse(queue));
  }

  /** Rows of the queue that threads other than this one could begin now, beyond those that they have. */
  freeElsewhere(member: Member, queue: number): number {
    let free = 0;
    for (const other of this.#members) {
      if (other === member || !other.takesWork) continue;
      free += Math.max(0, this.#ledger.unusedPermits(other.index, queue) - other.lane(queue).unstarted);
    }
    return free;
  }

  /** Spreads the queue's permits (M2, M3). `onGrant` hears of a thread that has got some. */
  settle(queue: number, onGrant: (member: Member) => void): void {
    if (this.#unsettled[queue] !== true) return;
    const takers = this.#members.filter((member) => member.takesWork);
    let fixed = this.#reserved[queue] ?? 0;
    for (const member of this.#members) {
      if (member.takesWork) continue;
      // A quarantined row's permit is its own until it has begun.
      if (!member.isSetApart) this.#takeBack(member, queue, Number.POSITIVE_INFINITY);
      fixed += member.granted[queue] ?? 0;
    }
    if (takers.length === 0) return;
    const shares = this.#shares(queue, takers, Math.max(0, (this.#concurrency[queue] ?? 0) - fixed));
    for (const [member, share] of shares) {
      this.#takeBack(member, queue, (member.granted[queue] ?? 0) - share);
    }
    let isSettled = fixed === (this.#reserved[queue] ?? 0);
    let left = this.#left(queue) - (this.#reserved[queue] ?? 0);
    for (const [member, share] of shares) {
      const missing = share - (member.granted[queue] ?? 0);
      const count = Math.max(0, Math.min(missing, left));
      if (count > 0) {
        this.#grant(member, queue, count);
        left -= count;
        onGrant(member);
      }
      if (count < missing) isSettled = false;
    }
    this.#unsettled[queue] = !isSettled;
  }

  /** Gives one permit to a thread that is set apart, from wherever one is unused. False while all are in use: one is
   *  then kept back for the next call. */
  grantOne(member: Member, queue: number): boolean {
    if (this.#left(queue) <= 0) {
      const other = this.#members.find((candidate) => this.#takeBack(candidate, queue, 1) > 0);
      if (other === undefined) {
        this.#reserved[queue] = 1;
        this.#unsettled[queue] = true;
        return false;
      }
    }
    this.#reserved[queue] = 0;
    this.#unsettled[queue] = true;
    this.#grant(member, queue, 1);
    return true;
  }

  /** Takes back what a thread has and does not use. */
  takeBackAll(member: Member): void {
    for (const queue of member.granted.keys()) this.#takeBack(member, queue, Number.POSITIVE_INFINITY);
    this.unsettle();
  }

  /** No quarantined row waits for a permit any more. */
  dropReservations(): void {
    this.#reserved.fill(0);
    this.unsettle();
  }

  /** M1: what may still be granted. */
  #left(queue: number): number {
    let left = this.#concurrency[queue] ?? 0;
    for (const member of this.#members) left -= member.granted[queue] ?? 0;
    return left;
  }

  /** M3: what does not divide goes to those that have most. */
  #shares(queue: number, takers: readonly Member[], count: number): [Member, number][] {
    const base = Math.floor(count / takers.length);
    const extra = count % takers.length;
    const rank = (member: Member): number => (member.index + queue) % this.#members.length;
    const ordered = [...takers].sort(
      (left, right) => (right.granted[queue] ?? 0) - (left.granted[queue] ?? 0) || rank(left) - rank(right),
    );
    return ordered.map((member, position) => [member, base + (position < extra ? 1 : 0)]);
  }

  #grant(member: Member, queue: number, count: number): void {
    member.granted[queue] = (member.granted[queue] ?? 0) + count;
    this.#ledger.putPermits(member.index, queue, count);
  }

  #takeBack(member: Member, queue: number, count: number): number {
    const wanted = Math.min(count, member.granted[queue] ?? 0);
    if (wanted <= 0) return 0;
    const taken = this.#ledger.takePermits(member.index, queue, wanted);
    member.granted[queue] = (member.granted[queue] ?? 0) - taken;
    return taken;
  }
}
