// Picker: finds work for one queue and hands it to the crew. One a queue, all in the coordinator's thread.
// Owns:  the queue's cursor, its poll timer and its rows that wait for their mark.
// P1  One pick is in flight at most. Completions and pokes that arrive meanwhile are answered together by the next one.
// P2  A pick that found less than it asked for ends the search (`#isDry`): only a poke, a timer, a release, the poll or one of
//     the few looks after work was found (afterlook.ts) starts it again, so the end of a backlog is not followed by a pick a
//     completion.
// P3  A poke matters whenever it comes: while no slot is free it is remembered, and the next free slot picks.
// P4  A claim whose answer was lost is released by name before its lease runs out.
// P5  A claim that the database refuses because of some row's values is halved until that row stands alone; it is then
//     left out for a while, and the rest goes on.
// P6  A queue without limits is claimed by one statement. Where that meets a row with a limit, the picks become
//     transactions (claimLimited.ts), until no such row was met for a while.

import { monotonicMs, setClampedTimeout } from "#core/clock.js";
import { classifyFailure } from "#core/database/failure.js";
import type { Ledger } from "#core/ledger.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import { Afterlook } from "./afterlook.js";
import { type Claim, claimRunnable, type KnownDefinitions } from "./claim.js";
import { claimLimited, isRace, pickTransaction, RowRefused } from "./claimLimited.js";
import { Cursor, type Look } from "./cursor.js";
import type { Database } from "./database.js";
import { demandOf, PREFETCH_ROWS_MAX } from "./demand.js";
import type { HeldRow, HeldTable } from "./held.js";
import { trustMs } from "./lease.js";
import type { LimitedClaim } from "./limitedClaim.js";
import type { Limiter } from "./limiter/limiter.js";
import { LimitedSearch } from "./limiter/search.js";
import type { Throttle } from "./limiter/throttle.js";
import { Marking, type MarkingSlots } from "./marking.js";
import { Pace } from "./pace.js";
import { Refused } from "./refused.js";
import { describeServerError, type Report } from "./report.js";
import type { StepRules } from "./stepRules.js";

/** A shorter horizon would make a pick of every few completions; a longer one would hold rows that others could run. */
const PREFETCH_WINDOW_MS_MIN = 10;
/** After a pick that found nothing, further pokes wait so long: a storm of them costs a bounded number of picks. */
const EMPTY_PICK_SPACING_MS = 10;
/** Between tries after the database refused a claim. */
const REFUSED_RETRY_MS = 250;
/** The poll interval grows by this factor while the queue is idle. */
const POLL_BACKOFF = 1.5;

/** What the picker needs of the crew. */
export interface Slots extends MarkingSlots {
  running(queueIndex: number): number;
}

export interface PickerOptions {
  queue: string;
  queueIndex: number;
  flusher: number;
  concurrency: number;
  leaseTtlMs: number;
  pollIntervalMs: number;
  maxPollIntervalMs: number;
  prefetch: number | "auto";
  minDemand: number;
  known: KnownDefinitions;
  rules: StepRules;
  database: Pick<Database, "run" | "isUp" | "statements">;
  limiter: Limiter;
  throttle: Pick<Throttle, "tell">;
  /** Whether the picker's connections keep session settings. */
  keepsSettings: boolean;
  ledger: Pick<Ledger, "pendingBytes">;
  held: HeldTable;
  slots: Slots;
  report: Report;
  /** Whether what a claim would bring can be committed: the flusher's connection stands. */
  canCommit(): boolean;
  /** A name for the next claim: `<node>/<pick>`. */
  nameClaim(): string;
  /** The claim's answer was lost: its rows must be given back. */
  doubt(claim: string): void;
}

type Reason = "poke" | "poll" | "freed" | "again";

export class Picker {
  readonly #options: PickerOptions;
  readonly #cursor = new Cursor();
  readonly #pace = new Pace();
  readonly #marking: Marking;
  readonly #refused = new Refused();
  /** P6: how picks look for rows while the queue has limited ones; null: they are one statement. */
  #search: LimitedSearch | null = null;
  #searchTimer: NodeJS.Timeout | undefined;
  #phase: "stopped" | "running" = "stopped";
  #picking: Promise<void> | undefined;
  #isLookScheduled = false;
  /** The last search ended, and nothing has come up since. */
  #isDry = true;
  /** Something came up during the pick in flight. */
  #isPoked = false;
  #pollTimer: NodeJS.Timeout | undefined;
  #laterTimer: NodeJS.Timeout | undefined;
  #pollMs: number;
  #reason: Reason = "poke";
  readonly #afterlook = new Afterlook(() => this.#lookAgain());
  /** Rows of the search that goes on. */
  #found = 0;
  #emptyAtMs = Number.NEGATIVE_INFINITY;
  #rowsMax = Number.POSITIVE_INFINITY;
  #roundTripMs = 2;
  #heldCount = 0;

  constructor(options: PickerOptions) {
    this.#options = options;
    this.#marking = new Marking({
      ...options,
      onSettled: () => this.#look(),
      onPutOff: () => this.#lookLater(REFUSED_RETRY_MS),
    });
    this.#pollMs = options.pollIntervalMs;
  }

  get queue(): string {
    return this.#options.queue;
  }

  get queueIndex(): number {
    return this.#options.queueIndex;
  }

  /** Whether the last search found everything and nothing has come up since. */
  get isDry(): boolean {
    return this.#isDry && this.#picking === undefined && this.#cursor.nextAtMs === Number.POSITIVE_INFINITY;
  }

  /** Rows of the queue that this node holds. */
  get heldCount(): number {
    return this.#heldCount;
  }

  start(): void {
    this.#phase = "running";
    this.poke();
  }

  /** Stops picking; resolves when no pick is in flight. Rows that wait for their mark are the caller's to recall. */
  async stop(): Promise<void> {
    this.#phase = "stopped";
    clearTimeout(this.#pollTimer);
    clearTimeout(this.#laterTimer);
    clearTimeout(this.#searchTimer);
    const marked = this.#marking.stop();
    await this.#picking;
    await marked;
    this.#afterlook.stop();
  }

  /** Rows of this queue may be due now (P3). */
  poke(): void {
    this.#cursor.poke();
    this.#search?.poke();
    this.#isPoked = true;
    this.#seek("poke");
  }

  /** A poke of this queue came from elsewhere: others may follow, and may be held back there. */
  told(): void {
    this.#afterlook.told(monotonicMs());
  }

  /** User code of `count` rows has returned: their slots are free. */
  ended(count: number): void {
    this.#pace.ended(count, monotonicMs());
    this.#look();
  }

  /** Steps have been committed whose rows stay: their next steps run ahead. */
  continued(count: number): void {
    this.#pace.ended(count, monotonicMs());
    this.#look();
  }

  /** Something else that a pick depends on has changed: slots, seats, bytes, the database. */
  look(): void {
    this.#look();
  }

  /** Rows were committed, returned or lost: they are no longer held. */
  released(count: number): void {
    this.#heldCount -= count;
    this.#look();
  }

  /** Rows of these concurrency keys, of whatever queue, are no longer held here: others of the keys may start. */
  freed(keys: readonly string[]): void {
    const search = this.#search;
    if (search === null) return;
    const nowMs = monotonicMs();
    const isAwaited = keys.filter((key) => search.freed(key, nowMs)).length > 0;
    if (isAwaited) this.#seek("freed");
  }

  /** MK2: takes a row whose claim is lost out of the line for marks; false where it is not there. */
  letGo(held: HeldRow): boolean {
    return this.#marking.letGo(held);
  }

  /** Takes back the rows that wait for their mark. */
  recall(): HeldRow[] {
    return this.#marking.recall();
  }

  #seek(reason: Reason): void {
    this.#isDry = false;
    this.#reason = reason;
    this.#look();
  }

  /** Looks for work in a moment: after everything that has arrived in this turn of the loop. */
  #look(): void {
    if (this.#isLookScheduled || this.#phase !== "running") return;
    this.#isLookScheduled = true;
    setImmediate(() => {
      this.#isLookScheduled = false;
      this.#marking.start();
      this.#pickIfWanted();
    });
  }

  #pickIfWanted(): void {
    const { database, canCommit } = this.#options;
    if (this.#phase !== "running" || this.#picking !== undefined || this.#isDry) return;
    if (!database.isUp || !canCommit()) return;
    const wanted = this.#wanted();
    if (wanted === 0) return;
    const nowMs = monotonicMs();
    // What has become free is known, and not searched for.
    const isCalled = this.#search !== null && this.#search.nextAtMs <= nowMs && nowMs >= this.#emptyAtMs;
    if (!isCalled && nowMs - this.#emptyAtMs < EMPTY_PICK_SPACING_MS) {
      this.#lookLater(EMPTY_PICK_SPACING_MS - (nowMs - this.#emptyAtMs));
      return;
    }
    clearTimeout(this.#pollTimer);
    this.#isPoked = false;
    const rowsMax = Math.min(wanted, this.#rowsMax);
    const search = this.#search;
    const pick = search === null ? this.#pick(rowsMax) : this.#pickLimited(rowsMax, search);
    clearTimeout(this.#searchTimer);
    this.#picking = pick.then(() => {
      this.#picking = undefined;
      this.#armPoll();
      this.#armSearch();
      this.#look();
    });
  }

  async #pick(wanted: number): Promise<void> {
    const { database, queue } = this.#options;
    const claimName = this.#options.nameClaim();
    const sentAtMs = monotonicMs();
    const look = this.#cursor.look(sentAtMs);
    try {
      const claim = await database.run("picker", (connection) =>
        claimRunnable(connection, database.statements, {
          queue,
          claim: claimName,
          rowsMax: wanted,
          leaseTtlMs: this.#options.leaseTtlMs,
          known: this.#options.known,
          places: look.places,
          marginMs: look.marginMs,
          without: this.#refused.ids(sentAtMs),
        }),
      );
      this.#roundTripMs = this.#roundTripMs * 0.8 + (monotonicMs() - sentAtMs) * 0.2;
      this.#rowsMax = Math.min(this.#rowsMax * 2, Number.MAX_SAFE_INTEGER);
      this.#settle(claim, { wanted, look, sentAtMs });
    } catch (error) {
      await this.#recover(error, { claimName, wanted });
    }
  }

  /** Takes in what a claim brought, and decides whether the search goes on. */
  #settle(claim: Claim, pick: { wanted: number; look: Look; sentAtMs: number }): void {
    const nowMs = monotonicMs();
    if (claim.rows.length > 0) this.#takeIn(claim.rows, null, pick.sentAtMs);
    this.#tellPick(pick.wanted, claim.rows.length);
    const isOver = this.#cursor.tell(pick.look, { ...claim, count: claim.rows.length }, nowMs);
    if (claim.limited > 0) {
      this.#cursor.forget();
      this.#search = new LimitedSearch(nowMs);
    } else if (isOver) {
      if (!this.#isPoked) this.#endSearch();
      if (claim.rows.length === 0) this.#foundNothing(nowMs);
    }
    this.#adaptPoll(claim.rows.length);
  }

  async #pickLimited(wanted: number, search: LimitedSearch): Promise<void> {
    const { database, queue, limiter, report } = this.#options;
    const claimName = this.#options.nameClaim();
    const sentAtMs = monotonicMs();
    const step = search.begin(wanted, sentAtMs);
    try {
      const claim = await database.run("picker", (connection) =>
        claimLimited(
          connection,
          {
            statements: database.statements,
            limiter,
            transaction: pickTransaction(this.#options.keepsSettings),
            onContended: () => report.event("contended", { queue }),
          },
          {
            ...step,
            without: this.#refused.ids(sentAtMs),
            queue,
            claim: claimName,
            leaseTtlMs: this.#options.leaseTtlMs,
            known: this.#options.known,
          },
        ),
      );
      this.#roundTripMs = this.#roundTripMs * 0.8 + (monotonicMs() - sentAtMs) * 0.2;
      this.#rowsMax = Math.min(this.#rowsMax * 2, Number.MAX_SAFE_INTEGER);
      this.#settleLimited(claim, {
        search,
        isOver: search.end(step, claim, monotonicMs()),
        wanted,
        sentAtMs,
      });
    } catch (error) {
      search.fail();
      await this.#recover(error, { claimName, wanted });
    }
  }

  #settleLimited(
    claim: LimitedClaim,
    pick: { search: LimitedSearch; isOver: boolean; wanted: number; sentAtMs: number },
  ): void {
    const nowMs = monotonicMs();
    if (claim.rows.length > 0) this.#takeIn(claim.rows, claim.keys, pick.sentAtMs);
    this.#tellPick(pick.wanted, claim.rows.length);
    this.#options.throttle.tell(this.#options.queue, claim);
    if (pick.isOver) {
      if (!this.#isPoked) this.#endSearch();
      if (claim.rows.length === 0) this.#foundNothing(nowMs);
    }
    this.#adaptPoll(claim.rows.length);
    if (pick.search.isQuiet(nowMs)) {
      this.#search = null;
      this.#cursor.forget();
    }
  }

  #endSearch(): void {
    this.#isDry = true;
    this.#afterlook.searchEnded(this.#found, monotonicMs());
    this.#found = 0;
  }

  /** A look of our own does not hold up the poke that comes right after it. */
  #foundNothing(nowMs: number): void {
    if (this.#reason !== "again") this.#emptyAtMs = nowMs;
  }

  /** Where no slot is free the rows can wait for one: whoever frees it is followed by a poke or a poll. */
  #lookAgain(): void {
    if (this.#phase === "running" && this.#isDry && this.#wanted() > 0) this.#seek("again");
  }

  #tellPick(wanted: number, claimed: number): void {
    this.#options.report.event("pick", { queue: this.#options.queue, wanted, claimed });
  }

  #adaptPoll(claimed: number): void {
    if (claimed > 0) this.#pollMs = this.#options.pollIntervalMs;
    else if (this.#reason === "poll" && this.#isDry) {
      this.#pollMs = Math.min(this.#pollMs * POLL_BACKOFF, this.#options.maxPollIntervalMs);
    }
  }

  #takeIn(rows: readonly ClaimedRow[], keys: readonly (string | null)[] | null, sentAtMs: number): void {
    const { held, queueIndex, rules, slots, leaseTtlMs } = this.#options;
    if (this.#heldCount === 0) this.#pace.begin(monotonicMs());
    const ready: HeldRow[] = [];
    const unmarked: HeldRow[] = [];
    const trustedUntilMs = sentAtMs + trustMs(leaseTtlMs);
    for (const [index, row] of rows.entries()) {
      const concurrencyKey = keys?.[index] ?? null;
      const heldRow = held.hold(row, { queueIndex, claimedAtMs: sentAtMs, trustedUntilMs, concurrencyKey });
      (rules.needsMark(row) ? unmarked : ready).push(heldRow);
    }
    this.#heldCount += rows.length;
    this.#found += rows.length;
    if (ready.length > 0) slots.dispatch(ready);
    if (unmarked.length > 0) {
      this.#marking.add(unmarked);
      this.#marking.start();
    }
  }

  /** P4, P5. */
  async #recover(error: unknown, pick: { claimName: string; wanted: number }): Promise<void> {
    this.#options.doubt(pick.claimName);
    this.#cursor.forget();
    this.#emptyAtMs = monotonicMs();
    const failure = classifyFailure(error);
    // When the database is back, the coordinator pokes.
    if (failure === "connection") return;
    if (error instanceof RowRefused) return this.#leaveOut(error.id, error.cause);
    // The next pick meets what the winners of a race have committed.
    if (failure === "contention" || isRace(error))
      return this.#options.report.event("contended", { queue: this.queue });
    if (failure === "data" || failure === "constraint") {
      if (pick.wanted === 1) await this.#setAside(error);
      else this.#rowsMax = pick.wanted >> 1;
      return;
    }
    this.#options.report.trouble(`picking from queue ${this.queue}`, error);
    this.#emptyAtMs = monotonicMs() + REFUSED_RETRY_MS;
  }

  #leaveOut(id: number, error: unknown): void {
    this.#refused.add(id, monotonicMs());
    this.#options.report.log("error", "an instance cannot be claimed; it is left out for a while", {
      instance: id,
      queue: this.queue,
      err: describeServerError(error),
    });
  }

  async #setAside(error: unknown): Promise<void> {
    const { database, known, report } = this.#options;
    try {
      const [head] = await database.run("picker", (connection) =>
        connection.run<{ id: number }>(database.statements.get("picker/find_head"), [
          this.queue,
          known.names,
          known.versions,
          this.#refused.ids(monotonicMs()),
        ]),
      );
      if (head !== undefined) this.#leaveOut(head.id, error);
    } catch (cause) {
      report.trouble(`picking from queue ${this.queue}`, cause);
    }
  }

  #wanted(): number {
    const options = this.#options;
    const unstarted = options.slots.unstarted(options.queueIndex) + this.#marking.count;
    const running = options.slots.running(options.queueIndex);
    return demandOf({
      concurrency: options.concurrency,
      freeSlots: options.slots.freeSlots(options.queueIndex),
      unstarted,
      // At most so many of those that run are chains; the others wait.
      returning: Math.max(0, options.held.chainsOf(options.queueIndex) - running),
      prefetch: this.#prefetch(),
      minDemand: options.minDemand,
      room: options.held.room,
      uncommitted: Math.max(0, this.#heldCount - running - unstarted),
      uncommittedBytes: options.ledger.pendingBytes(options.flusher),
    });
  }

  #prefetch(): number {
    const { prefetch } = this.#options;
    if (prefetch !== "auto") return prefetch;
    const windowMs = Math.max(2 * this.#roundTripMs, PREFETCH_WINDOW_MS_MIN);
    return Math.min(this.#pace.rowsIn(windowMs, monotonicMs()), PREFETCH_ROWS_MAX);
  }

  #armPoll(): void {
    if (this.#phase !== "running") return;
    clearTimeout(this.#pollTimer);
    // A little jitter, so that idle nodes do not poll in step.
    this.#pollTimer = setClampedTimeout(
      () => {
        this.#armPoll();
        this.#cursor.forget();
        this.#search?.poke();
        this.#seek("poll");
      },
      this.#pollMs * (0.9 + Math.random() * 0.2),
    );
  }

  /** A key's pause is over, a rate has refilled, or the search is to begin anew: by itself. */
  #armSearch(): void {
    const nextAtMs = (this.#search ?? this.#cursor).nextAtMs;
    if (this.#phase !== "running" || nextAtMs === Number.POSITIVE_INFINITY) return;
    clearTimeout(this.#searchTimer);
    const reason = this.#search === null ? "again" : "freed";
    this.#searchTimer = setClampedTimeout(
      () => this.#seek(reason),
      Math.max(1, Math.ceil(nextAtMs - monotonicMs())),
    );
  }

  #lookLater(delayMs: number): void {
    clearTimeout(this.#laterTimer);
    this.#laterTimer = setTimeout(() => this.#look(), Math.ceil(delayMs));
  }
}
