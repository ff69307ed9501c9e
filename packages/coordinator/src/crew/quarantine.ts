// Quarantine: rows whose user code has gone down with its thread before run one at a time, alone in a thread, so that
// the next crash has one culprit and no other victim.
//
// Q1  One quarantined row runs at a time, in a thread that is set apart and empty.
// Q2  While rows wait here, one thread stays set apart; the others go on. With one thread, ordinary rows get turns.
// Q3  A step without end holds up nobody: one in quarantine gives its thread back after a while, and one in the thread
//     that is set apart is not waited for without end. A row that is hit so has crashed once, and is quarantined itself.

import { monotonicMs } from "#core/clock.js";
import type { HeldRow } from "../held.js";
import {
  QUARANTINE_ALONE_MS,
  QUARANTINE_REST_MS,
  QUARANTINE_WAIT_MS,
  QUARANTINE_WAIT_ONLY_MS,
} from "./bounds.js";
import type { Member } from "./member.js";
import type { Permits } from "./permits.js";

export interface QuarantineOptions {
  members: readonly Member[];
  permits: Permits;
  /** Sends a row to the thread that is set apart. */
  send(member: Member, held: HeldRow): void;
  /** Takes ordinary rows that had not begun in the thread that is set apart. */
  putBack(rows: readonly HeldRow[]): void;
  /** Whether ordinary rows wait for a thread. */
  hasBacklog(): boolean;
}

export class Quarantine {
  readonly #options: QuarantineOptions;
  #suspects: HeldRow[] = [];
  #running: HeldRow | undefined;
  #apart: Member | undefined;
  /** Since when the thread is set apart without, or with, its row. */
  #sinceMs = 0;
  #restsUntilMs = 0;
  /** A row is being marked; it comes when that is done (marks.ts). */
  isReserved = false;

  constructor(options: QuarantineOptions) {
    this.#options = options;
  }

  get isActive(): boolean {
    return this.#suspects.length > 0 || this.#apart !== undefined;
  }

  /** Nothing runs here, nothing waits, and nothing is about to come. */
  get isFree(): boolean {
    return !this.isReserved && this.#suspects.length === 0 && this.#running === undefined;
  }

  add(held: HeldRow): void {
    this.#suspects.push(held);
  }

  waiting(queue: number): number {
    return this.#suspects.filter((held) => held.queueIndex === queue).length;
  }

  takeAll(): HeldRow[] {
    const suspects = this.#suspects;
    this.#suspects = [];
    return suspects;
  }

  /** The row has ended, was taken back, or is lost. */
  left(held: HeldRow): void {
    if (held !== this.#running) return;
    this.#running = undefined;
    this.#sinceMs = monotonicMs();
    const { permits, hasBacklog } = this.#options;
    if (this.#apart !== undefined) permits.takeBackAll(this.#apart);
    // Q2: nobody else can take what waits.
    if (hasBacklog() && !this.#othersTakeWork()) {
      this.#release();
      this.#restsUntilMs = monotonicMs() + QUARANTINE_REST_MS;
    }
  }

  /** The same for a row that is not held any more. */
  leftTenancy(seat: number, generation: number | undefined): void {
    const running = this.#running;
    if (running?.row.seat === seat && running.row.generation === generation) this.left(running);
  }

  /** Does what can be done now: sets a thread apart, sends the next row, or gives the thread back. */
  advance(): void {
    if (!this.isActive) return;
    const nowMs = monotonicMs();
    if (this.#running !== undefined) {
      if (nowMs - this.#sinceMs <= QUARANTINE_ALONE_MS) return;
      // Q3.
      this.#running = undefined;
      this.#release();
    }
    const { permits, send } = this.#options;
    if (this.#apart !== undefined && !isUsable(this.#apart)) this.#release();
    if (this.#suspects.length === 0) {
      this.#release();
      return;
    }
    if (this.#apart === undefined && nowMs < this.#restsUntilMs) return;
    const member = this.#setApart(nowMs);
    const [held] = this.#suspects;
    if (member === undefined || held === undefined) return;
    const waitMsMax = this.#othersTakeWork() ? QUARANTINE_WAIT_MS : QUARANTINE_WAIT_ONLY_MS;
    if (member.outstanding > 0 && nowMs - this.#sinceMs <= waitMsMax) return;
    if (!permits.grantOne(member, held.queueIndex)) return;
    this.#suspects.shift();
    this.#running = held;
    this.#sinceMs = nowMs;
    send(member, held);
  }

  /** The thread that is set apart: the one that is empty, or will be soonest. */
  #setApart(nowMs: number): Member | undefined {
    if (this.#apart?.outstanding === 0) return this.#apart;
    const { members, permits, putBack } = this.#options;
    let best = this.#apart;
    for (const member of members) {
      if (!isUsable(member)) continue;
      if (
        best === undefined ||
        (member.outstanding < best.outstanding && (this.#apart === undefined || member.outstanding === 0))
      )
        best = member;
    }
    if (best === undefined || best === this.#apart) return best;
    this.#release();
    this.#apart = best;
    this.#sinceMs = nowMs;
    best.isSetApart = true;
    permits.takeBackAll(best);
    putBack(best.recallAll());
    return best;
  }

  #othersTakeWork(): boolean {
    return this.#options.members.some((member) => member.takesWork);
  }

  #release(): void {
    const member = this.#apart;
    if (member === undefined) return;
    this.#apart = undefined;
    member.isSetApart = false;
    this.#options.permits.takeBackAll(member);
    this.#options.permits.dropReservations();
  }
}

function isUsable(member: Member): boolean {
  return member.phase.name === "open" && !member.isBlocked;
}
