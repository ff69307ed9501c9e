// The machines that the benchmarks run: the least that user code can do.

import { defineFsm } from "gen-durable";
import { z } from "zod";

/** Done at once. */
export const oneStep = defineFsm({
  name: "oneStep",
  queue: "bench",
  state: z.object({ n: z.number().default(0) }),
  steps: { only: (ctx) => ctx.done() },
});

/** Ends with the moment at which its step began, milliseconds since 1970 with fractions. */
export const stamped = defineFsm({
  name: "stamped",
  queue: "bench",
  state: z.object({ n: z.number().default(0) }),
  steps: { only: (ctx) => ctx.done({ startedAtMs: performance.timeOrigin + performance.now() }) },
});
