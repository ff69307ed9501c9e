// Crew: the executor threads as the coordinator uses them. Rows go in; the coordinator hears which have ended, which are
// lost, and that a thread is there or not.
//
// Owns: which thread has which row, the permits, and the threads' lives. Runs on the coordinator's thread.
// C1  A row whose user code had not begun is never lost: it is taken back and sent elsewhere.
// C2  Of a dead thread's rows only those that had begun are told as lost. Flushers keep those whose outcomes arrived.
// C3  A timed-out row runs again, in `handle`, only after the thread that ran its step is gone.
// C4  A chain whose next step waits where it cannot begin leaves its thread: it is told as stranded, and goes back untouched.

import { monotonicMs } from "#core/clock.js";
import { GenDurableError } from "#core/errors.js";
import type { AbortReason, CatalogueEntry, FromExecutor, ToExecutor } from "#core/protocol/executor.js";
import type { ContinuedRow, LostRow } from "#core/protocol/flusher.js";
import type { HeldRow } from "../held.js";
import { NONE_READY_MS_MAX } from "./bounds.js";
import { Dispatch } from "./dispatch.js";
import type { CrewOptions } from "./events.js";
import { Member } from "./member.js";
import { Permits } from "./permits.js";
import { Quarantine } from "./quarantine.js";
import { Sessions } from "./sessions.js";
import { strandedChains } from "./stranded.js";
import { TimeLimits } from "./timeLimits.js";
import { isOverdue, Watchdog } from "./watchdog.js";

export class Crew {
  readonly #options: CrewOptions;
  readonly #members: readonly Member[];
  readonly #permits: Permits;
  readonly #dispatch: Dispatch;
  readonly #quarantine: Quarantine;
  readonly #watchdog: Watchdog;
  readonly #sessions: Sessions;
  readonly #limits = new TimeLimits();
  #hasStarted = false;
  #isClosing = false;
  #readyTold = -1;
  #noneReady: NodeJS.Timeout | undefined;

  constructor(options: CrewOptions) {
    this.#options = options;
    const { settings, ledger, held, queues } = options;
    const members = Array.from(
      { length: settings.workers },
      (_, index) => new Member(index, queues.length, ledger),
    );
    this.#members = members;
    const permits = new Permits(
      ledger,
      queues.map((name) => settings.queues[name] ?? 0),
      members,
    );
    this.#permits = permits;
    this.#dispatch = new Dispatch({ members, permits, held, limits: this.#limits, queues: queues.length });
    this.#quarantine = new Quarantine({
      members,
      permits,
      send: (member, row) => this.#dispatch.send(member, row),
      putBack: (rows) => this.#requeue(rows),
      hasBacklog: () => this.#dispatch.hasBacklog,
    });
    this.#watchdog = new Watchdog({
      members,
      permits,
      ledger,
      held,
      queues: queues.length,
      requeue: (rows) => this.#requeue(rows),
      end: (member) => this.#sessions.endOverdue(member),
      log: options.events.log,
      looked: () => {
        this.#releaseStranded();
        this.rebalance();
      },
      hasMore: () => this.#quarantine.isActive,
    });
    this.#sessions = new Sessions(options, members, {
      opened: (member, catalogue) => this.#opened(member, catalogue),
      refused: (error) => this.#refused(() => options.events.refused(error)),
      message: (member, message) => this.#receive(member, message),
      gone: (member, end) => this.#gone(member, end),
    });
  }

  /** Starts every thread. */
  start(): void {
    for (const member of this.#members) this.#sessions.open(member);
    this.#tellHealth();
  }

  /** Takes claimed rows that have their seats; each begins as soon as its queue has a slot. */
  dispatch(rows: readonly HeldRow[]): void {
    for (const held of rows) {
      if (held.row.crashes > 0) this.#quarantine.add(held);
      else this.#dispatch.add(held);
    }
    this.rebalance();
  }

  /** A commit has carried rows to their next steps, which run ahead in the threads that have them. */
  continued(rows: readonly { held: HeldRow; to: ContinuedRow }[]): void {
    for (const { held: row, to } of rows) {
      this.#options.held.continue(row, to);
      const member = row.thread === null ? undefined : this.#members[row.thread];
      if (member === undefined) continue;
      member.chains.add(row);
      if (this.#limits.has(row.row)) member.limited.add(row);
      else member.limited.delete(row);
    }
  }

  /** These chains' next steps have the leave of their limits. */
  admitted(rows: readonly HeldRow[]): void {
    for (const row of rows) row.admission = "given";
    this.#tellChains("admitted", rows);
  }

  /** Takes chains out of their threads whose next steps have not begun. Returns those that could be taken. */
  recallChains(rows: readonly HeldRow[]): HeldRow[] {
    const { ledger, held } = this.#options;
    const recalled = rows.filter(({ row }) => ledger.recallChained(row.seat, row.generation));
    this.#tellChains("forget", recalled);
    for (const row of recalled) {
      const member = row.thread === null ? undefined : this.#members[row.thread];
      member?.forget(row);
      this.#quarantine.left(row);
      held.endChain(row);
    }
    return recalled;
  }

  /** These rows are not held any more, whether or not their threads have told their ends yet. */
  released(rows: readonly HeldRow[]): void {
    for (const row of rows) {
      if (row.thread !== null) this.#members[row.thread]?.drop(row);
    }
  }

  /** Sends what can be sent, after slots or threads have become free. */
  rebalance(): void {
    this.#quarantine.advance();
    this.#dispatch.distribute();
    if (!this.#isClosing) this.#watchdog.wake();
  }

  /** Takes a row again that was told as outdated, after it was read anew. */
  takeUpdated(held: HeldRow): void {
    this.#options.held.endChain(held);
    this.#requeue([held]);
    this.rebalance();
  }

  /** Rows of the queue that could begin at once; 0 while no thread takes work. */
  freeSlots(queueIndex: number): number {
    return this.#permits.free(queueIndex);
  }

  /** Rows of the queue that were dispatched and have not begun. */
  unstarted(queueIndex: number): number {
    return this.#dispatch.unstarted(queueIndex) + this.#quarantine.waiting(queueIndex);
  }

  /** Whether a row that has crashed before could run at once. */
  isQuarantineFree(): boolean {
    return this.#quarantine.isFree;
  }

  /** Whoever marks a row for the quarantine says so before and after: meanwhile it is not free. */
  reserveQuarantine(isReserved: boolean): void {
    this.#quarantine.isReserved = isReserved;
  }

  /** Rows of the queue whose user code runs. */
  running(queueIndex: number): number {
    return this.#permits.inUse(queueIndex);
  }

  /** Takes back every row that has not begun, for good: the caller hands them back and releases their seats. */
  recallUnstarted(): HeldRow[] {
    const { ledger } = this.#options;
    const waiting = [...this.#dispatch.takeBacklog(), ...this.#quarantine.takeAll()];
    const own = waiting.filter(({ row }) => ledger.recall(row.seat, row.generation));
    return [...own, ...this.#members.flatMap((member) => this.#recallAll(member))];
  }

  /** Aborts the signal of a row that runs, or that will. */
  abort(seat: number, reason: AbortReason): void {
    const held = this.#options.held.at(seat);
    if (held === undefined) return;
    held.abortion ??= reason;
    if (held.thread === null) return;
    const { generation } = held.row;
    const message: ToExecutor = { type: "abort", seat, generation, reason };
    this.#members[held.thread]?.control?.postMessage(message);
  }

  /** Aborts the signals of all rows. */
  abortAll(reason: AbortReason): void {
    for (const held of this.#options.held.all()) this.abort(held.row.seat, reason);
  }

  /**
   * Ends every thread; resolves when all are gone. Outcomes of steps that have returned are posted before; what still
   * ran is told as lost with `begun: false`: the node has cut it off, which is no crash of its own.
   */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#noneReady);
    this.#watchdog.stop();
    await this.#sessions.close();
  }

  #opened(member: Member, catalogue: readonly CatalogueEntry[]): void {
    member.ticks = this.#options.ledger.ticks(member.index);
    this.#permits.unsettle();
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      this.#limits.learn(catalogue);
      this.#options.events.ready(catalogue);
    }
    this.#tellHealth();
    this.rebalance();
    this.#options.events.ended([]);
  }

  #refused(tell: () => void): void {
    if (this.#isClosing || this.#hasStarted) return;
    this.#hasStarted = true;
    tell();
  }

  #receive(member: Member, message: FromExecutor): void {
    switch (message.type) {
      case "ended":
        this.#ended(member, message.tenancies);
        return;
      case "distrusted":
        this.#distrusted(member, message.tenancies);
        return;
      case "log":
        this.#options.events.log(message.level, message.message, { thread: member.index, ...message.fields });
        return;
      default:
        // "ready" and "refused" are the sessions' own.
        return;
    }
  }

  #ended(member: Member, tenancies: readonly number[]): void {
    const nowMs = monotonicMs();
    member.endedAtMs = nowMs;
    member.tickedAtMs = nowMs;
    if (member.isBlocked) {
      member.isBlocked = false;
      this.#permits.unsettle();
    }
    const seats = this.#left(member, tenancies);
    this.rebalance();
    this.#options.events.ended(seats);
  }

  #distrusted(member: Member, tenancies: readonly number[]): void {
    this.#options.events.distrusted(this.#left(member, tenancies));
  }

  /** Rows have left the thread. Returns the seats of those that are still held under the same tenancy. */
  #left(member: Member, tenancies: readonly number[]): number[] {
    const { held } = this.#options;
    const seats: number[] = [];
    for (let index = 0; index < tenancies.length; index += 2) {
      const seat = tenancies[index] as number; // pairs
      const generation = tenancies[index + 1];
      const row = held.at(seat, generation);
      // A row may have been flushed, and its seat taken by another, before its thread's message arrived.
      if (row === undefined || row.thread !== member.index) {
        member.outstanding--;
        this.#quarantine.leftTenancy(seat, generation);
        continue;
      }
      member.forget(row);
      this.#quarantine.left(row);
      this.#options.held.endChain(row);
      seats.push(seat);
    }
    return seats;
  }

  #tellChains(type: "admitted" | "forget", rows: readonly HeldRow[]): void {
    for (const member of this.#members) {
      const own = rows.filter(({ thread }) => thread === member.index);
      if (own.length === 0) continue;
      const tenancies = own.flatMap(({ row }) => [row.seat, row.generation]);
      member.control?.postMessage({ type, tenancies } satisfies ToExecutor);
    }
  }

  /** C4. */
  #releaseStranded(): void {
    const stranded = strandedChains(this.#members, this.#permits, this.#options.ledger, monotonicMs());
    if (stranded.length === 0) return;
    const rows = this.recallChains(stranded);
    if (rows.length > 0) this.#options.events.stranded(rows);
  }

  /** C1. The rows' marks are free; they become tenants anew. */
  #requeue(rows: readonly HeldRow[]): void {
    if (rows.length === 0) return;
    const suspects = rows.filter(({ row }) => row.crashes > 0);
    for (const held of suspects) {
      this.#quarantine.left(held);
      this.#options.held.reseat(held);
      this.#quarantine.add(held);
    }
    this.#dispatch.putBack(suspects.length === 0 ? rows : rows.filter(({ row }) => row.crashes === 0));
  }

  #recallAll(member: Member): HeldRow[] {
    const rows = member.recallAll();
    for (const held of rows) this.#quarantine.left(held);
    return rows;
  }

  /** C1, C2, C3. */
  #gone(
    member: Member,
    { session, reason, wasWanted }: { session: number | undefined; reason: string; wasWanted: boolean },
  ): void {
    const { events, ledger, held } = this.#options;
    const wasOverdue = member.phase.name === "ending" && member.phase.why === "overdue";
    const nowMs = monotonicMs();
    const unbegun = this.#recallAll(member);
    const lost: LostRow[] = [];
    const timedOut: HeldRow[] = [];
    for (const row of held.inThread(member.index)) {
      const { id, claim, seat, generation, verdict } = row.row;
      const mark = ledger.mark(seat);
      this.#quarantine.left(row);
      row.thread = null;
      // Dropped unbegun by its thread, which did not live to say so. Of a chain the table has not what would run next.
      if (mark === "free" && !row.isChain) unbegun.push(row);
      else if (wasOverdue && mark === "begun" && verdict === null && isOverdue(row, ledger, nowMs))
        timedOut.push(row);
      else {
        const begun = !this.#isClosing && (mark === "begun" || mark === "ended");
        lost.push({ id, claim, seat, generation, begun });
      }
    }
    member.reset();
    ledger.resetThread(member.index);
    this.#permits.unsettle();
    if (!wasWanted)
      events.log("error", "an executor thread has died; rows that had begun in it will run again, alone", {
        thread: member.index,
        reason,
        instances: lost.slice(0, 20).map(({ id }) => id),
        lost: lost.length,
      });
    if (session !== undefined) events.lost(member.index, session, lost);
    for (const row of timedOut)
      row.row.verdict = { type: "timed_out", timeoutMs: ledger.limitMs(row.row.seat) };
    // What the table has of a chain is not what its last commit made of it.
    const outdated = timedOut.filter(({ isChain }) => isChain);
    if (outdated.length > 0) events.outdated(outdated);
    this.#requeue([...timedOut.filter(({ isChain }) => !isChain), ...unbegun]);
    member.phase = { name: "resting" };
    this.#tellHealth();
    if (!this.#isClosing) this.rebalance();
  }

  #tellHealth(): void {
    const ready = this.#members.filter((member) => member.isReady).length;
    if (ready === this.#readyTold || this.#isClosing) return;
    this.#readyTold = ready;
    this.#options.events.health(ready, this.#members.length);
    if (ready > 0) {
      clearTimeout(this.#noneReady);
      this.#noneReady = undefined;
    } else {
      this.#noneReady ??= setTimeout(() => this.#options.events.fatal(noneReady()), NONE_READY_MS_MAX);
    }
  }
}

function noneReady(): Error {
  return new GenDurableError(
    "transient",
    "NO_EXECUTOR",
    `no executor thread has been ready for ${NONE_READY_MS_MAX / 1_000} seconds`,
  );
}
