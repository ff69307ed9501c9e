// Pace: how many steps a queue gets through on this node, learnt from the ends of steps in the last second of work.
// Read by the picker to size its prefetch; fast steps are claimed in hundreds, slow ones one by one.

/** The memory is a second: steps that end in bursts (all slots at once) are averaged over it. */
const MEMORY_MS = 1_000;
const BUCKET_MS = 50;
/** Work that has just begun is not judged by its first instants. */
const WORKED_MS_MIN = 5;

export class Pace {
  #beganAtMs = 0;
  /** Ends by time, oldest first; at most MEMORY_MS of them. */
  #buckets: { atMs: number; count: number }[] = [];
  #sum = 0;

  /** The queue starts to work after it had none: idle time does not count as slowness. */
  begin(nowMs: number): void {
    this.#beganAtMs = nowMs;
    this.#buckets = [];
    this.#sum = 0;
  }

  /** `count` steps have ended. */
  ended(count: number, nowMs: number): void {
    const last = this.#buckets.at(-1);
    if (last !== undefined && nowMs - last.atMs < BUCKET_MS) last.count += count;
    else this.#buckets.push({ atMs: nowMs, count });
    this.#sum += count;
  }

  /** How many rows the queue gets through in `windowMs`, at the pace of the last second. */
  rowsIn(windowMs: number, nowMs: number): number {
    this.#forget(nowMs);
    const workedMs = Math.min(nowMs - this.#beganAtMs, MEMORY_MS);
    return Math.floor((this.#sum / Math.max(workedMs, WORKED_MS_MIN)) * windowMs);
  }

  #forget(nowMs: number): void {
    while (this.#buckets[0] !== undefined && nowMs - this.#buckets[0].atMs > MEMORY_MS) {
      this.#sum -= this.#buckets.shift()?.count ?? 0;
    }
  }
}
