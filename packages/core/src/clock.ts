// Clock: monotonic milliseconds that every thread of one process reads alike. `performance.now()` starts at zero in
// each thread, so its readings cannot be compared across threads; the kernel's monotonic clock can.

/** Milliseconds of the kernel's monotonic clock. Comparable between the threads of one process, not between processes. */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}

/** The longest delay that `setTimeout` takes; a longer one would fire at once. */
export const TIMER_MS_MAX = 2_147_483_647;

/** `setTimeout` that clamps a delay which would overflow; the caller looks again when it fires. */
export function setClampedTimeout(callback: () => void, delayMs: number): NodeJS.Timeout {
  return setTimeout(callback, Math.min(Math.max(delayMs, 0), TIMER_MS_MAX));
}
