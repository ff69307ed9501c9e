// Poke: a lossy hint that a queue has work, sent with NOTIFY. A lost poke costs one poll, never correctness.
// One channel a schema. The payload says what happened:
//   queue                    work is due now: pick
//   queue TAB dueInMs        work will be due in so many milliseconds: arm the timer, do not pick
//   TAB "cancel" TAB id      the step that runs instance id is asked to end
// K1  The first poke of a burst goes out at once (the leading edge); the window holds back only what follows it.
// K2  What the window holds back is sent when it closes: the last poke of a burst is never dropped.
// K3  The window is short unless work comes every few milliseconds: inserts that are further apart are told at once, or within
//     the short window; a stream of thousands pays for ten pokes a second (a NOTIFY makes its commit wait for a lock of the
//     whole server). What decides is the rate in the window that has just closed, so that a window never stays long by itself.

import { createHash } from "node:crypto";
import type { QueueDue } from "./protocol/flusher.js";

/** Whoever asks the database for the next due row asks at least this often, so work due later needs no poke. */
export const DUE_HORIZON_MS = 5_000;

/** One process pokes one queue at most once in so many milliseconds, after the leading edge and while it has much to say. */
export const POKE_WINDOW_MS = 100;

/** The window of a queue that is poked now and then. It doubles with every window in which work kept coming. */
const POKE_WINDOW_MS_MIN = 10;

/** Work keeps coming where a window held back so much for each of its milliseconds; below that it becomes short again. */
const STREAM_PER_MS = 0.3;

/** A held-back poke for work that is due before the window closes goes out this long after the last one at the earliest. */
const DUE_WINDOW_MS = 20;

export type Poke = { type: "due"; queue: string; dueInMs: number } | { type: "cancel"; id: number };

/** The NOTIFY channel of a schema. A hash, because a channel's name is an identifier of at most 63 bytes. */
export function pokeChannel(schema: string): string {
  return `gen_durable_${createHash("sha256").update(schema).digest("hex").slice(0, 16)}`;
}

/** The payload of a poke. A queue's name may hold anything; one with a tab always states its `dueInMs`. */
export function encodePoke(poke: Poke): string {
  if (poke.type === "cancel") return `\tcancel\t${poke.id}`;
  const dueInMs = Math.max(0, Math.ceil(poke.dueInMs));
  return dueInMs === 0 && !poke.queue.includes("\t") ? poke.queue : `${poke.queue}\t${dueInMs}`;
}

/** Reads a payload; undefined for one that is not ours (anybody may NOTIFY on the channel). */
export function decodePoke(payload: string): Poke | undefined {
  const tab = payload.lastIndexOf("\t");
  if (tab === -1) return payload === "" ? undefined : { type: "due", queue: payload, dueInMs: 0 };
  const count = payload.slice(tab + 1);
  if (!/^\d{1,16}$/.test(count)) return undefined;
  const queue = payload.slice(0, tab);
  if (queue === "\tcancel") return { type: "cancel", id: Number(count) };
  return queue === "" ? undefined : { type: "due", queue, dueInMs: Number(count) };
}

export interface PokeGateOptions {
  /** Sends what the window has held back. Must not throw. */
  send: (payloads: readonly string[]) => void;
  /** Milliseconds of any clock that only moves forward. */
  nowMs: () => number;
}

interface Window {
  queue: string;
  sentAtMs: number;
  lengthMs: number;
  /** How often something was held back since. */
  heldBack: number;
  /** The earliest instant at which held-back work is due, or undefined when nothing is held back. */
  owedDueAtMs: number | undefined;
}

/** The payloads of pokes. */
export function encodeDues(dues: readonly QueueDue[]): string[] {
  return dues.map((due) => encodePoke({ type: "due", ...due }));
}

/** Decides which pokes go out at once and sends the held-back ones when their window closes. One a process and schema. */
export class PokeGate {
  readonly #options: PokeGateOptions;
  readonly #windows = new Map<string, Window>();
  #timer: NodeJS.Timeout | undefined;
  #wakesAtMs = Number.POSITIVE_INFINITY;
  #closed = false;

  constructor(options: PokeGateOptions) {
    this.#options = options;
  }

  /** Whether a poke of this queue would go out at once. Work due later has a window of its own. */
  isOpen(queue: string, dueInMs = 0): boolean {
    const window = this.#windows.get(windowKey({ queue, dueInMs }));
    return window === undefined || this.#options.nowMs() - window.sentAtMs >= window.lengthMs;
  }

  /** The queues that were poked within the window; what comes up in them now is owed. */
  closedQueues(): string[] {
    const queues: string[] = [];
    for (const [key, { queue }] of this.#windows)
      if (key.startsWith("now\t") && !this.isOpen(queue)) queues.push(queue);
    return queues;
  }

  /** Notes that a poke of this queue has gone out. */
  sent(due: QueueDue): void {
    this.#sweep();
    const key = windowKey(due);
    // Its window was over; what that may still owe goes out with this poke.
    this.#windows.set(key, {
      queue: due.queue,
      sentAtMs: this.#options.nowMs(),
      lengthMs: firstLengthMs(key),
      heldBack: 0,
      owedDueAtMs: undefined,
    });
  }

  /**
   * Sorts what has come up: `now` is to be sent at once, with the very statement that writes the rows;
   * `later` is held back. Call `unsent` with `now` when nothing was written. Pass `later` to `owe` once the rows are committed. Work due past the horizon is in neither.
   */
  sort(dues: Iterable<QueueDue>): { now: QueueDue[]; later: QueueDue[] } {
    const earliest = new Map<string, QueueDue>();
    for (const due of dues) {
      if (due.dueInMs > DUE_HORIZON_MS) continue;
      const key = windowKey(due);
      const known = earliest.get(key);
      if (known === undefined || due.dueInMs < known.dueInMs) earliest.set(key, due);
    }
    const now: QueueDue[] = [];
    const later: QueueDue[] = [];
    for (const due of earliest.values()) {
      if (this.isOpen(due.queue, due.dueInMs)) {
        now.push(due);
        this.sent(due);
      } else later.push(due);
    }
    return { now, later };
  }

  /** A poke that was to go out has not (its statement failed, or wrote nothing): the next one is a leading edge again. */
  unsent(dues: Iterable<QueueDue>): void {
    for (const due of dues) {
      const key = windowKey(due);
      const window = this.#windows.get(key);
      if (window === undefined) continue;
      window.sentAtMs = Number.NEGATIVE_INFINITY;
      if (window.owedDueAtMs === undefined) this.#windows.delete(key);
      else this.#wakeAt(this.#options.nowMs());
    }
  }

  /** Holds back pokes of committed rows until their window closes; at once where it has closed meanwhile. */
  owe(dues: Iterable<QueueDue>): void {
    if (this.#closed) return;
    const nowMs = this.#options.nowMs();
    for (const due of dues) {
      const key = windowKey(due);
      const window = this.#windows.get(key) ?? {
        queue: due.queue,
        sentAtMs: Number.NEGATIVE_INFINITY,
        lengthMs: firstLengthMs(key),
        heldBack: 0,
        owedDueAtMs: undefined,
      };
      window.heldBack++;
      window.owedDueAtMs = Math.min(window.owedDueAtMs ?? Number.POSITIVE_INFINITY, nowMs + due.dueInMs);
      this.#windows.set(key, window);
      this.#wakeAt(closesAtMs(key, window));
    }
  }

  /** Sends what is still held back and arms no further timer. */
  close(): void {
    this.#flush(Number.POSITIVE_INFINITY);
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #wakeAt(atMs: number): void {
    if (atMs >= this.#wakesAtMs) return;
    clearTimeout(this.#timer);
    this.#wakesAtMs = atMs;
    this.#timer = setTimeout(
      () => {
        this.#wakesAtMs = Number.POSITIVE_INFINITY;
        this.#flush(this.#options.nowMs());
      },
      Math.max(0, Math.ceil(atMs - this.#options.nowMs())),
    );
    // A held-back hint keeps no process alive.
    this.#timer.unref();
  }

  #flush(upToMs: number): void {
    const nowMs = this.#options.nowMs();
    const payloads: string[] = [];
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [key, window] of this.#windows) {
      if (window.owedDueAtMs === undefined) continue;
      const closesMs = closesAtMs(key, window);
      if (closesMs > upToMs) {
        nextMs = Math.min(nextMs, closesMs);
        continue;
      }
      const dueInMs = Math.max(0, window.owedDueAtMs - nowMs);
      payloads.push(encodePoke({ type: "due", queue: window.queue, dueInMs }));
      window.lengthMs = nextLengthMs(key, window);
      window.heldBack = 0;
      window.sentAtMs = nowMs;
      window.owedDueAtMs = undefined;
    }
    if (payloads.length > 0) this.#options.send(payloads);
    if (nextMs !== Number.POSITIVE_INFINITY) this.#wakeAt(nextMs);
  }

  /** Forgets closed windows, so that the map holds no more queues than were poked lately. */
  #sweep(): void {
    if (this.#windows.size < 256) return;
    const nowMs = this.#options.nowMs();
    for (const [key, window] of this.#windows) {
      if (window.owedDueAtMs === undefined && nowMs - window.sentAtMs >= 2 * POKE_WINDOW_MS)
        this.#windows.delete(key);
    }
  }
}

/** When a held-back poke goes out: at the window's end, or sooner where the work is due before that. */
function closesAtMs(key: string, window: Window): number {
  const endsAtMs = window.sentAtMs + window.lengthMs;
  if (!key.startsWith("later\t")) return endsAtMs;
  const dueAtMs = window.owedDueAtMs ?? endsAtMs;
  return Math.max(window.sentAtMs + DUE_WINDOW_MS, Math.min(endsAtMs, dueAtMs));
}

/** Work that is due later is told long before: there is no hurry. */
function firstLengthMs(key: string): number {
  return key.startsWith("later\t") ? POKE_WINDOW_MS : POKE_WINDOW_MS_MIN;
}

/** K3. */
function nextLengthMs(key: string, { lengthMs, heldBack }: Window): number {
  return heldBack >= lengthMs * STREAM_PER_MS ? Math.min(lengthMs * 2, POKE_WINDOW_MS) : firstLengthMs(key);
}

function windowKey(due: QueueDue): string {
  return due.dueInMs > 0 ? `later\t${due.queue}` : `now\t${due.queue}`;
}
