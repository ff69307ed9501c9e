// Pace: how many steps a queue gets through on this node, learnt from the ends of steps.
// Read by the picker to size its prefetch; fast steps are claimed in hundreds, slow ones one by one.

/** Ends that come closer together than this are one observation. */
const OBSERVATION_MS_MIN = 5;
/** How long an observation outlives its cause. */
const MEMORY_MS = 1_000;

export class Pace {
  #rowsPerMs = 0;
  #observedAtMs: number | undefined;
  #ended = 0;

  /** The queue starts to work after it had none: idle time does not count as slowness. */
  begin(nowMs: number): void {
    this.#observedAtMs = nowMs;
    this.#ended = 0;
  }

  /** Steps have ended. A faster pace is believed at once, a slower one gradually. */
  ended(count: number, nowMs: number): void {
    this.#ended += count;
    this.#observedAtMs ??= nowMs;
    const elapsedMs = nowMs - this.#observedAtMs;
    if (elapsedMs < OBSERVATION_MS_MIN) return;
    const observed = this.#ended / elapsedMs;
    this.#rowsPerMs =
      observed >= this.#rowsPerMs
        ? observed
        : observed + (this.#rowsPerMs - observed) * Math.exp(-elapsedMs / MEMORY_MS);
    this.#observedAtMs = nowMs;
    this.#ended = 0;
  }

  /** How many rows the queue gets through in `windowMs`, at the pace of the last second. */
  rowsIn(windowMs: number): number {
    return Math.floor(this.#rowsPerMs * windowMs);
  }
}
