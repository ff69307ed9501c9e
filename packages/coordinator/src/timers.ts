// Timers: what comes due by itself starts on time: delayed rows, back-offs, await deadlines.
// Owns:  one timer for the earliest of them, set from what the database says and from hints (pokes, commits).
// T1  The database is asked at least every DUE_HORIZON_MS, so what is due later than that needs no hint, and a lost hint
//     costs that long at most.
// T2  After something has come due the database is asked again: hints name only the earliest.
// T3  A deadline that is due but cannot be woken (somebody has locked the row) is tried again with growing pauses.

import { monotonicMs, setClampedTimeout } from "#core/clock.js";
import { DUE_HORIZON_MS } from "#core/poke.js";
import type { Database } from "./database.js";
import { fireTimeouts } from "./deadlines.js";
import { findDue } from "./due.js";
import { Duty } from "./duty.js";
import type { Report } from "./report.js";

/** Asking is cheap, but a stream of short back-offs must not ask for each of them. */
const ASK_SPACING_MS = 20;
/** Spreads the nodes that wait for the same instant. */
const JITTER_MS = 4;
/** The one wait that cannot be skipped, for another transaction that enters the same correlation key. The lane is shared with leases. */
const LOCK_TIMEOUT_MS = 500;
const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 1_000;

export interface TimersOptions {
  queues: readonly string[];
  database: Database;
  report: Report;
  /** A row of the queue is due now. */
  onDue(queue: string): void;
  /** Timeouts have made rows of these queues runnable. */
  onWoken(queues: readonly string[]): void;
}

export class Timers {
  readonly #options: TimersOptions;
  readonly #asking: Duty;
  readonly #firing: Duty;
  readonly #jitterMs = Math.random() * JITTER_MS;
  /** When the next row of a queue is due, monotonic milliseconds. */
  readonly #dueAtMs = new Map<string, number>();
  #deadlineAtMs = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #armedForMs = Number.POSITIVE_INFINITY;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #retryMs = RETRY_MS_MIN;
  #stopped = true;

  constructor(options: TimersOptions) {
    this.#options = options;
    const { report } = options;
    this.#asking = new Duty({
      name: "asking what is due",
      report,
      retryMs: RETRY_MS_MAX,
      run: () => this.#ask(),
    });
    this.#firing = new Duty({
      name: "firing timeouts",
      report,
      retryMs: RETRY_MS_MAX,
      run: () => this.#fire(),
    });
  }

  start(): void {
    this.#stopped = false;
    this.#asking.start(0);
    this.#firing.start(DUE_HORIZON_MS);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await Promise.all([this.#asking.stop(), this.#firing.stop()]);
  }

  /** The database is back: what came due meanwhile is due now. */
  askNow(): void {
    this.#asking.wake();
  }

  /** A row of the queue will be due in so many milliseconds. */
  hintDue(queue: string, dueInMs: number): void {
    if (dueInMs > DUE_HORIZON_MS) return;
    const atMs = monotonicMs() + dueInMs + this.#jitterMs;
    if (atMs >= (this.#dueAtMs.get(queue) ?? Number.POSITIVE_INFINITY)) return;
    this.#dueAtMs.set(queue, atMs);
    this.#arm();
  }

  /** An await deadline will pass in so many milliseconds. */
  hintDeadline(dueInMs: number): void {
    if (dueInMs > DUE_HORIZON_MS) return;
    const atMs = monotonicMs() + dueInMs + this.#jitterMs;
    if (atMs >= this.#deadlineAtMs) return;
    this.#deadlineAtMs = atMs;
    this.#arm();
  }

  /** T1. */
  async #ask(): Promise<number> {
    const { database, queues } = this.#options;
    const askedAtMs = monotonicMs();
    this.#askedAtMs = askedAtMs;
    const due = await database.run("keeper", (connection) =>
      findDue(connection, database.statements, queues),
    );
    for (const [queue, dueInMs] of due.queues) this.hintDue(queue, dueInMs);
    if (due.deadlineInMs !== null) this.hintDeadline(Math.max(due.deadlineInMs, 0));
    return DUE_HORIZON_MS;
  }

  async #fire(): Promise<number> {
    const { database, report } = this.#options;
    const isDue = this.#deadlineAtMs <= monotonicMs();
    if (!isDue) return DUE_HORIZON_MS;
    const woken = await database.run("keeper", (connection) =>
      fireTimeouts(connection, database.statements, {
        transact: (batch) => connection.transaction(batch, { lockTimeoutMs: LOCK_TIMEOUT_MS }),
      }),
    );
    this.#deadlineAtMs = Number.POSITIVE_INFINITY;
    if (woken.length > 0) {
      this.#retryMs = RETRY_MS_MIN;
      report.event("timeouts", { count: woken.length });
      this.#options.onWoken([...new Set(woken.map(({ queue }) => queue))]);
      this.#askSoon(ASK_SPACING_MS);
    } else {
      // Woken by somebody else, or locked: the database knows which (T3).
      this.#askSoon(this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
    }
    return DUE_HORIZON_MS;
  }

  /** T2. */
  #askSoon(spacingMs: number): void {
    const sinceMs = monotonicMs() - this.#askedAtMs;
    this.#asking.soon(Math.max(1, spacingMs - sinceMs));
  }

  #arm(): void {
    if (this.#stopped) return;
    const nextMs = Math.min(this.#deadlineAtMs, ...this.#dueAtMs.values());
    if (nextMs === this.#armedForMs) return;
    clearTimeout(this.#timer);
    this.#armedForMs = nextMs;
    if (nextMs === Number.POSITIVE_INFINITY) return;
    this.#timer = setClampedTimeout(() => this.#comeDue(), Math.ceil(nextMs - monotonicMs()));
  }

  #comeDue(): void {
    this.#armedForMs = Number.POSITIVE_INFINITY;
    const nowMs = monotonicMs();
    let hasRows = false;
    for (const [queue, atMs] of this.#dueAtMs) {
      if (atMs > nowMs) continue;
      this.#dueAtMs.delete(queue);
      this.#options.onDue(queue);
      hasRows = true;
    }
    if (this.#deadlineAtMs <= nowMs) this.#firing.wake();
    if (hasRows) this.#askSoon(ASK_SPACING_MS);
    // A deadline that is being fired keeps its place until the database has answered.
    const nextMs = Math.min(...this.#dueAtMs.values());
    if (nextMs !== Number.POSITIVE_INFINITY || this.#deadlineAtMs > nowMs) this.#arm();
  }
}
