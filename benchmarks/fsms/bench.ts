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

/** Spawns so many instances of `oneStep`, and is done when all of them are. */
export const family = defineFsm({
  name: "family",
  queue: "bench",
  state: z.object({ children: z.number() }),
  steps: {
    spawn: (ctx) =>
      ctx.scheduleChildren(
        "joined",
        Array.from({ length: ctx.state.children }, (_, n) => oneStep.child({ state: { n } })),
        ctx.state,
      ),
    joined: (ctx) => ctx.done(),
  },
});

/** Hands its state on once, and is done. */
export const twoSteps = defineFsm({
  name: "twoSteps",
  queue: "bench",
  state: z.object({ text: z.string() }),
  steps: {
    first: (ctx) => ctx.next("second", ctx.state),
    second: (ctx) => ctx.done(),
  },
});
