// Probes that fail, each in its own way.

import { defineFsm, type Outcome } from "gen-durable";
import { z } from "zod";
import { audited } from "./audited.js";

/** Throws on each try; its `handle` retries at attempts 0 and 1 and stops at 2. */
export const crasher = defineFsm({
  name: "crasher",
  state: z.object({ seen: z.array(z.number()).default([]) }),
  steps: {
    start: (ctx): Promise<Outcome> =>
      audited(ctx, () => {
        throw new Error("crashed");
      }),
  },
  handle: (_error, ctx) =>
    ctx.attempt < 2 ? ctx.retry({ seen: [...ctx.state.seen, ctx.attempt] }) : ctx.stop("gave up"),
});

/** Throws something that is no error. */
export const thrower = defineFsm({
  name: "thrower",
  state: z.object({}),
  steps: {
    start: (ctx): Promise<Outcome> =>
      audited(ctx, () => {
        throw "not an error";
      }),
  },
});

/** Finishes with a value that JSON cannot hold. */
export const badResult = defineFsm({
  name: "badResult",
  state: z.object({}),
  steps: { start: (ctx) => audited(ctx, () => ctx.done({ big: 1n } as unknown as string)) },
});

/** Kills its thread on attempt 0, then is done. */
export const reborn = defineFsm({
  name: "reborn",
  state: z.object({}),
  steps: {
    start: (ctx) =>
      audited(ctx, () => {
        if (ctx.attempt === 0) process.exit(7);
        return ctx.done({ attempt: ctx.attempt });
      }),
  },
});

/** Kills its thread every time. `how`: by process.exit, by running out of memory, or with the whole process. */
export const poison = defineFsm({
  name: "poison",
  state: z.object({ how: z.enum(["exit", "memory", "process"]).default("exit") }),
  steps: {
    start: (ctx) =>
      audited(ctx, () => {
        if (ctx.state.how === "exit") process.exit(7);
        if (ctx.state.how === "process") process.kill(process.pid, "SIGKILL");
        const held: unknown[] = [];
        for (;;) held.push(new Array(100_000).fill(held.length));
      }),
  },
});

/** Never resolves, whatever its signal says. */
export const forever = defineFsm({
  name: "forever",
  state: z.object({}),
  steps: {
    start: { timeoutMs: 300, run: (ctx) => audited(ctx, () => new Promise<Outcome>(() => undefined)) },
  },
  handle: (error, ctx) => ctx.stop(error.message),
});

/** Leaves a rejected promise behind, then is done. */
export const stray = defineFsm({
  name: "stray",
  state: z.object({}),
  steps: {
    start: (ctx) =>
      audited(ctx, () => {
        void Promise.reject(new Error("left behind"));
        return ctx.done();
      }),
  },
});

/** Logs `lines` lines, then is done. */
export const chatty = defineFsm({
  name: "chatty",
  state: z.object({ lines: z.number().int().default(10_000) }),
  steps: {
    start: (ctx) =>
      audited(ctx, () => {
        for (let line = 0; line < ctx.state.lines; line++) ctx.log.info({ line }, "chatter");
        return ctx.done();
      }),
  },
});
