// SessionClock: the kernel's monotonic clock at the price of `performance.now()`, for a thread that asks it twice a row.

import { performance } from "node:perf_hooks";
import { monotonicMs } from "#core/clock.js";

/** A function that reads core/src/clock.ts's clock. It keeps what it needs from before any user code. */
export function makeClock(): () => number {
  const now = performance.now.bind(performance);
  const offsetMs = monotonicMs() - now();
  return () => now() + offsetMs;
}
