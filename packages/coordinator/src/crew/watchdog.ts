// Watchdog: looks at the threads that have work, by what stands in the ledger, so that a blocked one hides nothing.
//
// W1  A row that has not begun within STEAL_AFTER_MS is taken back while another thread could begin it, or while its own
//     thread's loop is blocked and another's is not.
// W2  A thread with an overdue step takes no new work. It is ended when only overdue steps are left in it, when its
//     neighbours have had their time, or at once when its loop is blocked. A step that ends by itself absolves it.
// W3  An overdue row is judged by its mark, its tenancy, and the limit that its thread has written, so that neither an ended step
//     is called overdue nor the next one of its chain, which nobody has told of yet.

import { monotonicMs } from "#core/clock.js";
import type { Ledger } from "#core/ledger.js";
import type { HeldRow, HeldTable } from "../held.js";
import {
  BLOCKED_AFTER_MS,
  BLOCKED_FOR_GOOD_MS,
  BLOCKED_TELL_MS,
  LOOK_MS,
  NEIGHBOURS_MS,
  STEAL_AFTER_MS,
  TIMEOUT_GRACE_MS,
} from "./bounds.js";
import type { Member, OpenThread } from "./member.js";
import type { Permits } from "./permits.js";

export interface WatchdogOptions {
  members: readonly Member[];
  permits: Permits;
  ledger: Ledger;
  held: HeldTable;
  queues: number;
  /** Takes rows that were taken back. */
  requeue(rows: readonly HeldRow[]): void;
  /** Ends a thread because of its overdue steps. */
  end(member: Member, open: OpenThread): void;
  log(level: "info" | "warn", message: string, fields: Record<string, unknown>): void;
  /** Whether looks are needed although no thread has a row. */
  hasMore(): boolean;
  /** Called after each look; distributes what has been moved. */
  looked(): void;
}

export class Watchdog {
  readonly #options: WatchdogOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /** Looks while there is anything to look at; called whenever rows may have been sent. */
  wake(): void {
    if (this.#timer !== undefined || !this.#isNeeded()) return;
    this.#timer = setInterval(() => {
      this.look();
      if (!this.#isNeeded()) this.stop();
    }, LOOK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  look(): void {
    const nowMs = monotonicMs();
    const { members, looked } = this.#options;
    for (const member of members) {
      this.#watchLoop(member, nowMs);
      this.#watchLimits(member, nowMs);
    }
    for (const member of members) this.#steal(member, nowMs);
    looked();
  }

  #isNeeded(): boolean {
    const { members, hasMore } = this.#options;
    return hasMore() || members.some((member) => member.outstanding > 0 || member.isBlocked);
  }

  /** Whether the loop has not turned for that long. */
  #isStill(member: Member, nowMs: number, forMs: number): boolean {
    return member.outstanding > 0 && nowMs - member.tickedAtMs > forMs;
  }

  #watchLoop(member: Member, nowMs: number): void {
    const { ledger, permits, log } = this.#options;
    const ticks = ledger.ticks(member.index);
    if (ticks !== member.ticks) {
      member.ticks = ticks;
      member.tickedAtMs = nowMs;
    }
    const isBlocked = this.#isStill(member, nowMs, BLOCKED_AFTER_MS);
    if (isBlocked !== member.isBlocked) {
      member.isBlocked = isBlocked;
      permits.unsettle();
    }
    if (!member.isLongBlockTold && this.#isStill(member, nowMs, BLOCKED_TELL_MS)) {
      member.isLongBlockTold = true;
      log("warn", "a step blocks its executor thread: nothing else runs there until it lets the loop turn", {
        thread: member.index,
        instances: this.#begunIn(member).map(({ row }) => row.id),
      });
    } else if (!isBlocked) member.isLongBlockTold = false;
  }

  /** W1. */
  #steal(member: Member, nowMs: number): void {
    const { members, permits, queues, requeue } = this.#options;
    // What a thread that is set apart has is meant to wait there.
    if (member.outstanding === 0 || (member.isSetApart && !member.isBlocked)) return;
    for (let queue = 0; queue < queues; queue++) {
      const lane = member.lane(queue);
      const sinceMs = lane.waitsSinceMs;
      if (sinceMs === undefined) continue;
      const others = members.filter((other) => other !== member && other.takesWork);
      if (others.length === 0) continue;
      if (!member.takesWork) {
        requeue(member.recall(queue, Number.POSITIVE_INFINITY));
        continue;
      }
      if (nowMs - sinceMs <= STEAL_AFTER_MS) continue;
      const free = permits.freeElsewhere(member, queue);
      if (free > 0) requeue(member.recall(queue, free));
    }
  }

  /** W2. */
  #watchLimits(member: Member, nowMs: number): void {
    const { phase } = member;
    if (member.limited.size === 0 && phase.name !== "condemned") return;
    if (phase.name !== "open" && phase.name !== "condemned") return;
    const overdue = this.#overdueIn(member, nowMs);
    if (overdue.length === 0) {
      if (phase.name === "condemned") this.#absolve(member);
      return;
    }
    if (phase.name === "open") this.#condemn(member, nowMs, overdue);
    const sinceMs = phase.name === "condemned" ? phase.sinceMs : nowMs;
    const isAlone = member.outstanding <= overdue.length;
    if (isAlone || nowMs - sinceMs > NEIGHBOURS_MS || this.#isStill(member, nowMs, BLOCKED_FOR_GOOD_MS))
      this.#options.end(member, phase);
  }

  /** W3. */
  #overdueIn(member: Member, nowMs: number): HeldRow[] {
    const { ledger, held } = this.#options;
    const overdue: HeldRow[] = [];
    for (const row of member.limited) {
      const { seat } = row.row;
      if (held.at(seat) !== row || row.thread !== member.index) member.limited.delete(row);
      else if (ledger.mark(seat) === "begun" && isOverdue(row, ledger, nowMs)) overdue.push(row);
    }
    return overdue;
  }

  #condemn(member: Member, nowMs: number, overdue: readonly HeldRow[]): void {
    const { permits, requeue, log } = this.#options;
    if (member.phase.name !== "open") return;
    member.phase = { ...member.phase, name: "condemned", sinceMs: nowMs };
    permits.unsettle();
    requeue(member.recallAll());
    log("warn", "a step runs past its timeout and its grace; its thread takes no new work", {
      thread: member.index,
      instances: overdue.map(({ row }) => row.id),
    });
  }

  #absolve(member: Member): void {
    if (member.phase.name !== "condemned") return;
    const { sinceMs: _, ...open } = member.phase;
    member.phase = { ...open, name: "open" };
    this.#options.permits.unsettle();
  }

  #begunIn(member: Member): HeldRow[] {
    const { ledger, held } = this.#options;
    return held.inThread(member.index).filter(({ row }) => ledger.mark(row.seat) === "begun");
  }
}

/** Whether a begun row has had its time and its grace. */
export function isOverdue({ row }: HeldRow, ledger: Ledger, nowMs: number): boolean {
  return ledger.isPastLimit(row.seat, TIMEOUT_GRACE_MS, nowMs);
}
