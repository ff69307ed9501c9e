// Stalls: the keys of one queue that were full or busy when last looked at, so that a pick leaves their rows out.
// ST1  A hint, never the truth: a forgotten stall costs a look, a wrong one costs its pause.
// ST2  A pause begins at STALL_MS_MIN and doubles up to STALL_MS_MAX while nothing changes; a refill that is known is waited
//      for exactly; a credit ends it at once.

import type { Denial, LimitKind } from "./limiter.js";

const STALL_MS_MIN = 100;
const STALL_MS_MAX = 1_000;
/** A key whose counters were just locked by somebody: as long as a commit takes. */
const BUSY_MS_MIN = 4;
/** A refill is not waited for more finely than this: tokens that come faster are taken together. */
const REFILL_MS_MIN = 5;
/** Keys remembered; rows of further ones are looked at again by each pick. */
const STALLS_MAX = 2_000;

interface Stall {
  kind: LimitKind;
  key: string;
  pauseMs: number;
  deniedAtMs: number;
  dueAtMs: number;
}

export class Stalls {
  readonly #stalls = new Map<string, Stall>();
  /** Names of those that the pick in flight looks at again. */
  #taken: string[] = [];
  #nextDueAtMs = Number.POSITIVE_INFINITY;

  get count(): number {
    return this.#stalls.size;
  }

  /** When the first of them is to be looked at again. */
  get nextDueAtMs(): number {
    return this.#nextDueAtMs;
  }

  /** A key was full, or somebody had its counters. */
  deny({ kind, key, why, refillInMs }: Denial, nowMs: number): void {
    if (refillInMs !== null && why === "full") {
      const pauseMs = Math.min(Math.max(refillInMs, REFILL_MS_MIN), STALL_MS_MAX);
      this.#set({ kind, key, pauseMs, deniedAtMs: nowMs, dueAtMs: nowMs + pauseMs });
      return;
    }
    this.#grow(kind, key, nowMs, why === "busy" ? BUSY_MS_MIN : STALL_MS_MIN);
  }

  /** A row of an unconfigured key executes. */
  busy(key: string, nowMs: number): void {
    this.#grow("conc", key, nowMs, STALL_MS_MIN);
  }

  /** Something was credited to the concurrency key. Returns whether anybody waits for it. */
  freed(key: string, nowMs: number): boolean {
    const stall = this.#stalls.get(nameOf("conc", key));
    if (stall === undefined) return false;
    stall.dueAtMs = nowMs;
    stall.pauseMs = 0;
    this.#nextDueAtMs = Math.min(this.#nextDueAtMs, nowMs);
    return true;
  }

  /** Somebody says that there is work: what was denied a while ago is looked at again. */
  poked(): void {
    for (const stall of this.#stalls.values()) {
      if (stall.kind === "conc") stall.dueAtMs = Math.min(stall.dueAtMs, stall.deniedAtMs + STALL_MS_MIN);
    }
    this.#look();
  }

  /**
   * What a pick leaves out, and what it looks up, at most `probesMax` keys; `hasDueRate`: a rate may have refilled, its rows
   * stand where they stand.
   */
  take(
    nowMs: number,
    probesMax: number,
  ): {
    excluded: { keys: string[]; rates: string[] };
    probes: string[];
    hasDueRate: boolean;
  } {
    const excluded = { keys: [] as string[], rates: [] as string[] };
    const probes: string[] = [];
    let hasDueRate = false;
    this.#taken = [];
    for (const [name, stall] of this.#stalls) {
      const isDue = stall.dueAtMs <= nowMs;
      if (!isDue || (stall.kind === "conc" && probes.length >= probesMax)) {
        (stall.kind === "conc" ? excluded.keys : excluded.rates).push(stall.key);
        continue;
      }
      this.#taken.push(name);
      if (stall.kind === "rate") hasDueRate = true;
      else probes.push(stall.key);
    }
    return { excluded, probes, hasDueRate };
  }

  /**
   * The pick that began at `beganAtMs` is over: what it looked at and did not find full again is free. Where it has left
   * rows of theirs (`hasLeft`, or of some: `more`), the keys are looked at again by the next one: their rows may stand
   * behind the place.
   */
  settle(beganAtMs: number, hasLeft: boolean, more: readonly string[] = []): void {
    const left = new Set(more.map((key) => nameOf("conc", key)));
    for (const name of hasLeft ? [] : this.#taken) {
      if (left.has(name)) continue;
      const stall = this.#stalls.get(name);
      if (stall !== undefined && stall.dueAtMs <= beganAtMs) this.#stalls.delete(name);
    }
    this.#taken = [];
    this.#look();
  }

  #grow(kind: LimitKind, key: string, nowMs: number, pauseMsMin: number): void {
    const known = this.#stalls.get(nameOf(kind, key));
    // Told twice within a pause (by rows that were looked at before it): nothing new.
    if (known !== undefined && known.dueAtMs > nowMs) return;
    const pauseMs =
      known === undefined ? pauseMsMin : Math.min(Math.max(known.pauseMs * 2, pauseMsMin), STALL_MS_MAX);
    this.#set({ kind, key, pauseMs, deniedAtMs: nowMs, dueAtMs: nowMs + pauseMs });
  }

  #set(stall: Stall): void {
    const name = nameOf(stall.kind, stall.key);
    if (this.#stalls.size >= STALLS_MAX && !this.#stalls.has(name)) return;
    this.#stalls.set(name, stall);
    this.#nextDueAtMs = Math.min(this.#nextDueAtMs, stall.dueAtMs);
  }

  #look(): void {
    let next = Number.POSITIVE_INFINITY;
    for (const { dueAtMs } of this.#stalls.values()) next = Math.min(next, dueAtMs);
    this.#nextDueAtMs = next;
  }
}

function nameOf(kind: LimitKind, key: string): string {
  return `${kind} ${key}`;
}
