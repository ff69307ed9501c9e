// Duty: something that the coordinator does again and again, one run at a time: after an interval, or sooner when asked.
// DU1  Two runs of one duty never overlap; a wake during a run is answered by one more run.
// DU2  Trouble ends the run, not the duty.

import { setClampedTimeout } from "#core/clock.js";
import type { Report } from "./report.js";

export class Duty {
  readonly #name: string;
  readonly #report: Report;
  /** Does the work once; returns after how many milliseconds it wants to run again. */
  readonly #run: () => Promise<number>;
  /** After trouble, the next try. */
  readonly #retryMs: number;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  /** During a run: how soon after it the next one is wanted. */
  #soonMs = Number.POSITIVE_INFINITY;
  #stopped = true;

  constructor(options: { name: string; report: Report; retryMs: number; run: () => Promise<number> }) {
    this.#name = options.name;
    this.#report = options.report;
    this.#run = options.run;
    this.#retryMs = options.retryMs;
  }

  start(delayMs: number): void {
    this.#stopped = false;
    this.#arm(delayMs);
  }

  /** Runs as soon as possible. */
  wake(): void {
    this.soon(0);
  }

  /** Runs in `delayMs`, whatever was planned; asked for during a run, that long after it at the latest. */
  soon(delayMs: number): void {
    if (this.#stopped) return;
    if (this.#running !== undefined) this.#soonMs = Math.min(this.#soonMs, delayMs);
    else if (delayMs <= 0) this.#begin();
    else this.#arm(delayMs);
  }

  /** Ends the duty; resolves when its last run is over. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  #arm(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setClampedTimeout(() => this.#begin(), delayMs);
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#soonMs = Number.POSITIVE_INFINITY;
    this.#running = this.#runOnce().then((nextMs) => {
      this.#running = undefined;
      if (!this.#stopped) this.#arm(Math.min(this.#soonMs, nextMs));
    });
  }

  async #runOnce(): Promise<number> {
    try {
      return await this.#run();
    } catch (error) {
      this.#report.trouble(this.#name, error);
      return this.#retryMs;
    }
  }
}
