// Wait: callers that wait for instances to end, and the one query a tick that watches for all of them.
// Owns:    the waiters. Without any, no query runs.
// W1  One query a tick. It looks directly at a bounded number of instances (new waiters first, then those that were
//     looked at longest ago) and, where that is not everybody, reads which instances ended lately: its cost grows with
//     what ended, not with the number of waiters.
// W2  Instances that commit late (their updated_at lies before what was read) are found by the direct look, which
//     comes round to everybody.
// W3  A failing query costs no waiter: it is tried again until each one's deadline. A waiter whose instance was
//     never seen by then gets the error, any other gets what was seen last.

import { setClampedTimeout } from "../clock.js";
import { GenDurableError, TransientError, UsageError } from "../errors.js";
import type { Session } from "./session.js";
import { arrayText, type TextRow } from "./text.js";

/** Instances that one tick looks at directly, besides new ones. */
export const LOOKS_MAX = 128;

/** New waiters that one tick takes up. */
const NEW_LOOKS_MAX = 10_000;

/** Ended instances that one tick reads; those beyond are left to the direct look. */
const ENDED_MAX = 20_000;

/** How far each reading goes back over the one before: commits take this long after their now(). */
const OVERLAP_SECONDS = 0.15;

/** Wait after a failed query. */
const RETRY_MS = 250;

/** A look without an answer for so long is tried again on another connection. */
const ANSWER_TIMEOUT_MS = 10_000;

/** How long past its deadline a waiter waits for a last look. */
const LAST_LOOK_MS = 1_000;

/** What `waitFor` sees of an instance. */
export type Sight =
  | { status: "done"; result: string | null }
  | { status: "failed"; error: string }
  | { status: "awaiting"; step: string }
  | { status: "busy"; step: string }
  | { status: "not_found" };

export interface WaitRequest {
  id: number;
  /** Milliseconds; Infinity: no deadline. */
  timeoutMs: number;
  /** Whether a park on a signal ends the wait; the end of the instance always does. */
  untilAwaiting: boolean;
  signal: AbortSignal | undefined;
}

interface Waiter extends WaitRequest {
  /** What was seen last; undefined before the first look. */
  seen: Sight | undefined;
  isDue: boolean;
  resolve(sight: Sight): void;
  reject(error: unknown): void;
}

export class Waiters {
  readonly #session: Session;
  readonly #tickMs: number;
  /** By id, in the order of the last direct look: the first was looked at longest ago. */
  readonly #waiters = new Map<number, Set<Waiter>>();
  /** Ids that the next tick looks at first: new, due, or just ended. */
  readonly #pressing = new Set<number>();
  readonly #abortable = new Map<AbortSignal, { waiters: Set<Waiter>; abort: () => void }>();
  #readUpTo: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isTicking = false;
  #lastError: unknown;
  #closed = false;

  constructor(session: Session, tickMs: number) {
    this.#session = session;
    this.#tickMs = tickMs;
  }

  /** Waits. Never rejects for a lost connection while the deadline is ahead. @throws the signal's reason when it aborts */
  wait(request: WaitRequest): Promise<Sight> {
    const { id, timeoutMs, signal } = request;
    return new Promise<Sight>((resolve, reject) => {
      if (this.#closed) throw closed();
      signal?.throwIfAborted();
      let deadline: NodeJS.Timeout | undefined;
      const settle = (answer: () => void): void => {
        clearTimeout(deadline);
        this.#forget(waiter);
        answer();
      };
      const waiter: Waiter = {
        ...request,
        seen: undefined,
        isDue: timeoutMs <= 0,
        resolve: (sight) => settle(() => resolve(sight)),
        reject: (error) => settle(() => reject(error)),
      };
      const armDeadline = (leftMs: number): void => {
        if (leftMs === Number.POSITIVE_INFINITY) return;
        const startedMs = Date.now();
        deadline = setClampedTimeout(() => {
          const stillMs = leftMs - (Date.now() - startedMs);
          if (stillMs > 1_000) return armDeadline(stillMs); // the delay was clamped
          waiter.isDue = true;
          this.#pressing.add(id);
          deadline = setTimeout(() => this.#giveUp(waiter), LAST_LOOK_MS);
        }, leftMs);
      };
      if (!waiter.isDue) armDeadline(timeoutMs);
      if (signal !== undefined) this.#obey(signal, waiter);
      const known = this.#waiters.get(id);
      if (known === undefined) this.#waiters.set(id, new Set([waiter]));
      else known.add(waiter);
      this.#pressing.add(id);
      if (this.#timer === undefined && !this.#isTicking) this.#schedule(0);
    });
  }

  /** Ends every wait with an error. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#rejectAll(closed());
  }

  /** One listener a signal, however many waiters it ends: Node warns of more than ten. */
  #obey(signal: AbortSignal, waiter: Waiter): void {
    const known = this.#abortable.get(signal);
    if (known !== undefined) {
      known.waiters.add(waiter);
      return;
    }
    const waiters = new Set([waiter]);
    const abort = (): void => {
      for (const one of [...waiters]) one.reject(signal.reason);
    };
    this.#abortable.set(signal, { waiters, abort });
    signal.addEventListener("abort", abort, { once: true });
  }

  #forget(waiter: Waiter): void {
    const { signal } = waiter;
    const abortable = signal === undefined ? undefined : this.#abortable.get(signal);
    abortable?.waiters.delete(waiter);
    if (signal !== undefined && abortable?.waiters.size === 0) {
      signal.removeEventListener("abort", abortable.abort);
      this.#abortable.delete(signal);
    }
    const others = this.#waiters.get(waiter.id);
    others?.delete(waiter);
    if (others?.size === 0) {
      this.#waiters.delete(waiter.id);
      this.#pressing.delete(waiter.id);
    }
    if (this.#waiters.size === 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#readUpTo = undefined;
    }
  }

  #giveUp(waiter: Waiter): void {
    if (waiter.seen !== undefined) waiter.resolve(waiter.seen);
    else
      waiter.reject(
        this.#lastError ?? new TransientError("DATABASE_UNREACHABLE", "the database did not answer"),
      );
  }

  #schedule(delayMs: number): void {
    if (this.#closed || this.#waiters.size === 0) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#tick();
    }, delayMs);
  }

  async #tick(): Promise<void> {
    if (this.#waiters.size === 0) return;
    this.#isTicking = true;
    const startedMs = performance.now();
    let nextMs = this.#tickMs;
    try {
      const hasNews = await this.#look();
      this.#lastError = undefined;
      // What ended is looked at now; everything else waits for its tick.
      nextMs = hasNews ? 0 : Math.max(0, this.#tickMs - (performance.now() - startedMs));
    } catch (error) {
      this.#lastError = error;
      nextMs = RETRY_MS;
      if (!(error instanceof GenDurableError) || !error.retryable) this.#rejectAll(error);
      else for (const waiter of this.#all()) if (waiter.isDue) this.#giveUp(waiter);
    } finally {
      this.#isTicking = false;
    }
    this.#schedule(nextMs);
  }

  /** Runs the tick's query. True when an instance that somebody waits for has ended and is to be looked at. */
  async #look(): Promise<boolean> {
    const ids = this.#idsToLookAt();
    const isEverybody = ids.size >= this.#waiters.size;
    const since = isEverybody || this.#readUpTo === undefined ? null : this.#readUpTo;
    const rows = await this.#session.run(
      "client/watch_instances",
      [
        arrayText([...ids]),
        since === null ? null : String(Number(since) - OVERLAP_SECONDS),
        String(ENDED_MAX),
      ],
      { answerTimeoutMs: ANSWER_TIMEOUT_MS },
    );
    let hasNews = false;
    for (const row of rows) {
      const id = Number(row.id);
      if (row.kind === "direct") {
        this.#show(id, sightOf(row));
        ids.delete(id);
      } else if (row.kind === "ended") {
        if (!this.#waiters.has(id)) continue;
        this.#pressing.add(id);
        hasNews = true;
      } else this.#readUpTo = row.at ?? undefined;
    }
    // What was asked for and is not there is gone, or never was.
    for (const id of ids) this.#show(id, { status: "not_found" });
    return hasNews;
  }

  #idsToLookAt(): Set<number> {
    const ids = new Set<number>();
    for (const id of this.#pressing) {
      if (ids.size >= NEW_LOOKS_MAX) break;
      this.#pressing.delete(id);
      ids.add(id);
    }
    let looks = Math.min(LOOKS_MAX, this.#waiters.size);
    for (const [id, waiters] of this.#waiters) {
      if (looks-- === 0) break;
      ids.add(id);
      // To the end of the line.
      this.#waiters.delete(id);
      this.#waiters.set(id, waiters);
    }
    return ids;
  }

  #show(id: number, sight: Sight): void {
    for (const waiter of this.#waiters.get(id) ?? []) {
      waiter.seen = sight;
      if (
        waiter.isDue ||
        sight.status === "done" ||
        sight.status === "failed" ||
        sight.status === "not_found"
      ) {
        waiter.resolve(sight);
      } else if (sight.status === "awaiting" && waiter.untilAwaiting) waiter.resolve(sight);
    }
  }

  *#all(): Generator<Waiter> {
    for (const waiters of [...this.#waiters.values()]) yield* [...waiters];
  }

  #rejectAll(error: unknown): void {
    for (const waiter of this.#all()) waiter.reject(error);
  }
}

function sightOf(row: TextRow): Sight {
  const step = row.step ?? "";
  switch (row.status) {
    case "done":
      return { status: "done", result: row.result ?? null };
    case "failed":
      return { status: "failed", error: row.error ?? "" };
    case "awaiting_signal":
      return { status: "awaiting", step };
    default:
      return { status: "busy", step };
  }
}

function closed(): UsageError {
  return new UsageError("CLIENT_CLOSED", "the client was closed while it waited");
}
