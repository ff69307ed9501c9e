// Picker: finds work for one queue and hands it to the crew. One a queue, all in the coordinator's thread.
// Owns:  the queue's cursor, its poll timer and its rows that wait for their mark.
// P1  One pick is in flight at most. Completions and pokes that arrive meanwhile are answered together by the next one.
// P2  A pick that found less than it asked for ends the search (`#isDry`): only a poke, a timer, a release or the poll starts it
//     again, so the end of a backlog is not followed by a pick a completion.
// P3  A poke matters whenever it comes: while no slot is free it is remembered, and the next free slot picks.
// P4  A claim whose answer was lost is released by name before its lease runs out.
// P5  A claim that the database refuses because of some row's values is halved until that row stands alone; it is then
//     left out for a while, and the rest goes on.

import { monotonicMs, setClampedTimeout } from "#core/clock.js";
import { classifyFailure } from "#core/database/failure.js";
import type { Ledger } from "#core/ledger.js";
import { type Claim, claimRunnable, type KnownDefinitions } from "./claim.js";
import { Cursor } from "./cursor.js";
import type { Database } from "./database.js";
import { demandOf, PREFETCH_ROWS_MAX } from "./demand.js";
import type { HeldRow, HeldTable } from "./held.js";
import { trustMs } from "./lease.js";
import { Marks } from "./marks.js";
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
export interface Slots {
  dispatch(rows: readonly HeldRow[]): void;
  freeSlots(queueIndex: number): number;
  unstarted(queueIndex: number): number;
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

type Reason = "poke" | "poll" | "freed";

export class Picker {
  readonly #options: PickerOptions;
  readonly #cursor = new Cursor();
  readonly #pace = new Pace();
  readonly #marks: Marks;
  readonly #refused = new Refused();
  #phase: "stopped" | "running" = "stopped";
  #picking: Promise<void> | undefined;
  #marking: Promise<void> | undefined;
  #isLookScheduled = false;
  /** The last search ended, and nothing has come up since. */
  #isDry = true;
  /** Something came up during the pick in flight. */
  #isPoked = false;
  #pollTimer: NodeJS.Timeout | undefined;
  #laterTimer: NodeJS.Timeout | undefined;
  #pollMs: number;
  #isPoll = false;
  #emptyAtMs = Number.NEGATIVE_INFINITY;
  #rowsMax = Number.POSITIVE_INFINITY;
  #roundTripMs = 2;
  #heldCount = 0;

  constructor(options: PickerOptions) {
    this.#options = options;
    this.#marks = new Marks(options.held);
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
    return this.#isDry && this.#picking === undefined;
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
    await this.#picking;
    await this.#marking;
  }

  /** Rows of this queue may be due now (P3). */
  poke(): void {
    this.#cursor.drop();
    this.#isPoked = true;
    this.#seek("poke");
  }

  /** User code of `count` rows has returned: their slots are free. */
  ended(count: number): void {
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

  /** Takes back the rows that wait for their mark. */
  recall(): HeldRow[] {
    return this.#marks.recall();
  }

  #seek(reason: Reason): void {
    this.#isDry = false;
    this.#isPoll = reason === "poll";
    this.#look();
  }

  /** Looks for work in a moment: after everything that has arrived in this turn of the loop. */
  #look(): void {
    if (this.#isLookScheduled || this.#phase !== "running") return;
    this.#isLookScheduled = true;
    setImmediate(() => {
      this.#isLookScheduled = false;
      this.#startMarked();
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
    if (nowMs - this.#emptyAtMs < EMPTY_PICK_SPACING_MS) {
      this.#lookLater(EMPTY_PICK_SPACING_MS - (nowMs - this.#emptyAtMs));
      return;
    }
    clearTimeout(this.#pollTimer);
    this.#isPoked = false;
    this.#picking = this.#pick(Math.min(wanted, this.#rowsMax)).then(() => {
      this.#picking = undefined;
      this.#armPoll();
      this.#look();
    });
  }

  async #pick(wanted: number): Promise<void> {
    const { database, queue } = this.#options;
    const claimName = this.#options.nameClaim();
    const sentAtMs = monotonicMs();
    const places = this.#cursor.places(sentAtMs);
    try {
      const claim = await database.run("picker", (connection) =>
        claimRunnable(connection, database.statements, {
          queue,
          claim: claimName,
          rowsMax: wanted,
          leaseTtlMs: this.#options.leaseTtlMs,
          known: this.#options.known,
          places,
          without: this.#refused.ids(sentAtMs),
        }),
      );
      this.#roundTripMs = this.#roundTripMs * 0.8 + (monotonicMs() - sentAtMs) * 0.2;
      this.#rowsMax = Math.min(this.#rowsMax * 2, Number.MAX_SAFE_INTEGER);
      this.#settle(claim, { wanted, hadCursor: places !== null, sentAtMs });
    } catch (error) {
      await this.#recover(error, { claimName, wanted });
    }
  }

  /** Takes in what a claim brought, and decides whether the search goes on. */
  #settle(claim: Claim, pick: { wanted: number; hadCursor: boolean; sentAtMs: number }): void {
    const nowMs = monotonicMs();
    if (claim.rows.length > 0) this.#takeIn(claim, pick.sentAtMs);
    this.#options.report.event("pick", {
      queue: this.#options.queue,
      wanted: pick.wanted,
      claimed: claim.rows.length,
    });
    if (!claim.isShort) {
      this.#cursor.advance(claim.reached, nowMs);
    } else {
      this.#cursor.drop();
      // Past a cursor there may be rows before it: the search ends only where it has looked everywhere.
      if (!pick.hadCursor && !this.#isPoked) this.#isDry = true;
      if (!pick.hadCursor && claim.rows.length === 0) this.#emptyAtMs = nowMs;
    }
    if (claim.rows.length > 0) this.#pollMs = this.#options.pollIntervalMs;
    else if (this.#isPoll && this.#isDry) {
      this.#pollMs = Math.min(this.#pollMs * POLL_BACKOFF, this.#options.maxPollIntervalMs);
    }
  }

  #takeIn(claim: Claim, sentAtMs: number): void {
    const { held, queueIndex, rules, slots, leaseTtlMs } = this.#options;
    if (this.#heldCount === 0) this.#pace.begin(monotonicMs());
    const ready: HeldRow[] = [];
    const unmarked: HeldRow[] = [];
    const trustedUntilMs = sentAtMs + trustMs(leaseTtlMs);
    for (const row of claim.rows) {
      const heldRow = held.hold(row, { queueIndex, claimedAtMs: sentAtMs, trustedUntilMs });
      (rules.needsMark(row) ? unmarked : ready).push(heldRow);
    }
    this.#heldCount += claim.rows.length;
    if (ready.length > 0) slots.dispatch(ready);
    if (unmarked.length > 0) {
      this.#marks.add(unmarked);
      this.#startMarked();
    }
  }

  /** P4, P5. */
  async #recover(error: unknown, pick: { claimName: string; wanted: number }): Promise<void> {
    this.#options.doubt(pick.claimName);
    this.#cursor.drop();
    this.#emptyAtMs = monotonicMs();
    const failure = classifyFailure(error);
    // When the database is back, the coordinator pokes.
    if (failure === "connection") return;
    if (failure === "contention") return this.#options.report.event("contended", { queue: this.queue });
    if (failure === "data" || failure === "constraint") {
      if (pick.wanted === 1) await this.#setAside(error);
      else this.#rowsMax = pick.wanted >> 1;
      return;
    }
    this.#options.report.trouble(`picking from queue ${this.queue}`, error);
    this.#emptyAtMs = monotonicMs() + REFUSED_RETRY_MS;
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
      if (head === undefined) return;
      this.#refused.add(head.id, monotonicMs());
      report.log("error", "an instance cannot be claimed; it is left out for a while", {
        instance: head.id,
        queue: this.queue,
        err: describeServerError(error),
      });
    } catch (cause) {
      report.trouble(`picking from queue ${this.queue}`, cause);
    }
  }

  #wanted(): number {
    const options = this.#options;
    const unstarted = options.slots.unstarted(options.queueIndex) + this.#marks.count;
    const running = options.slots.running(options.queueIndex);
    return demandOf({
      concurrency: options.concurrency,
      freeSlots: options.slots.freeSlots(options.queueIndex),
      unstarted,
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

  /** Marks and hands out rows of the line while slots are free for them (marks.ts). */
  #startMarked(): void {
    const { database, slots, queueIndex } = this.#options;
    if (this.#marking !== undefined || !database.isUp || this.#marks.count === 0) return;
    const free = slots.freeSlots(queueIndex) - slots.unstarted(queueIndex);
    const rows = this.#marks.take(free, monotonicMs());
    if (rows.length === 0) {
      if (free > 0) this.#lookLater(REFUSED_RETRY_MS);
      return;
    }
    this.#marking = this.#mark(rows).then(() => {
      this.#marking = undefined;
      this.#look();
    });
  }

  async #mark(rows: readonly HeldRow[]): Promise<void> {
    const { database, slots, report, held } = this.#options;
    let marked = new Set<number>();
    try {
      const answer = await database.run("keeper", (connection) =>
        connection.run<{ id: number }>(database.statements.get("picker/mark_started"), [
          rows.map(({ row }) => row.id),
          rows.map(({ row }) => row.claim),
        ]),
      );
      marked = new Set(answer.map(({ id }) => id));
    } catch (error) {
      report.trouble(`marking rows of queue ${this.#options.queue}`, error);
    }
    const isHeld = ({ row }: HeldRow): boolean => held.at(row.seat, row.generation) !== undefined;
    this.#marks.putBack(
      rows.filter(({ row }) => !marked.has(row.id)),
      monotonicMs(),
    );
    const ready = rows.filter((heldRow) => marked.has(heldRow.row.id) && isHeld(heldRow));
    if (this.#phase === "running") slots.dispatch(ready);
    else this.#marks.putBack(ready, monotonicMs());
  }

  #armPoll(): void {
    if (this.#phase !== "running") return;
    clearTimeout(this.#pollTimer);
    // A little jitter, so that idle nodes do not poll in step.
    this.#pollTimer = setClampedTimeout(
      () => {
        this.#armPoll();
        this.#cursor.drop();
        this.#seek("poll");
      },
      this.#pollMs * (0.9 + Math.random() * 0.2),
    );
  }

  #lookLater(delayMs: number): void {
    clearTimeout(this.#laterTimer);
    this.#laterTimer = setTimeout(() => this.#look(), Math.ceil(delayMs));
  }
}
