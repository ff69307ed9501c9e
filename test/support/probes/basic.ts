// Probes of a node's everyday work.

import { setTimeout as sleep } from "node:timers/promises";
import { defineFsm } from "gen-durable";
import { z } from "zod";
import { audited, untilLetGo } from "./audited.js";

/** Done at once. */
export const plain = defineFsm({
  name: "plain",
  state: z.object({}),
  steps: { start: (ctx) => audited(ctx, () => ctx.done()) },
});

/** Loops on one step until n is target, then done with the count. */
export const counter = defineFsm({
  name: "counter",
  state: z.object({ target: z.number().int().default(0), n: z.number().int().default(0) }),
  steps: {
    count: (ctx) =>
      audited(
        ctx,
        () => {
          const { n, target } = ctx.state;
          return n >= target ? ctx.done({ count: n }) : ctx.next("count", { n: n + 1, target });
        },
        ctx.state.n,
      ),
  },
});

/** Sleeps for `ms`, then is done. */
export const sleeper = defineFsm({
  name: "sleeper",
  state: z.object({ ms: z.number().default(100) }),
  steps: {
    start: (ctx) =>
      audited(ctx, async () => {
        await sleep(ctx.state.ms);
        return ctx.done();
      }),
  },
});

/** Blocks until the test lets `name` go, then is done. Its second step is reached through `thenNext`. */
export const hold = defineFsm({
  name: "hold",
  state: z.object({ name: z.string().default("hold"), thenNext: z.boolean().default(false) }),
  steps: {
    start: (ctx) =>
      audited(ctx, async () => {
        await untilLetGo(ctx.state.name, ctx.signal);
        return ctx.state.thenNext ? ctx.next("last", ctx.state) : ctx.done("held");
      }),
    last: (ctx) => audited(ctx, () => ctx.done("held")),
  },
});

/** Blocks its thread's loop for `ms` without giving it back. */
export const blocker = defineFsm({
  name: "blocker",
  state: z.object({ ms: z.number().default(1_000) }),
  steps: {
    start: (ctx) =>
      audited(ctx, () => {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ctx.state.ms);
        return ctx.done();
      }),
  },
});

/** Carries a text through two steps and ends with its length. */
export const bulky = defineFsm({
  name: "bulky",
  state: z.object({ text: z.string() }),
  steps: {
    start: (ctx) => audited(ctx, () => ctx.next("last", ctx.state)),
    last: (ctx) => audited(ctx, () => ctx.done({ length: ctx.state.text.length })),
  },
});
