// Sabotage: steps that kill, starve or block the thread they run on, on their first try only; and jobs that fail.

import { defineFsm, defineJob, StepCrashedError } from "gen-durable";
import { z } from "zod";
import { audited, auditedHandle, auditedJob, common } from "./audited.js";

const HOW = ["exit", "memory", "block", "hang"] as const;
const state = z.object({ ...common, how: z.enum(HOW), ms: z.number().default(0) });

export const saboteur = defineFsm({
  name: "saboteur",
  queue: "main",
  state,
  steps: {
    strike: {
      timeoutMs: 1_500,
      run: (ctx) =>
        audited(ctx, async (by) => {
          if (ctx.attempt === 0) await strike(ctx.state.how, ctx.state.ms);
          return ctx.done({ w: ctx.state.w, by });
        }),
    },
  },
  handle: (_error, ctx) => auditedHandle(ctx, (by) => ctx.retry({ ...ctx.state, by }, { delayMs: 10 })),
});

/** Its step must not run again after a crash: `handle` is told instead. */
export const guarded = defineFsm({
  name: "guarded",
  queue: "main",
  state: z.object({ ...common, exits: z.boolean() }),
  steps: {
    once: {
      rerunAfterCrash: false,
      run: (ctx) =>
        audited(ctx, async (by) => {
          if (ctx.state.exits) process.exit(7);
          return ctx.done({ w: ctx.state.w, by });
        }),
    },
    recovered: (ctx) => audited(ctx, (by) => ctx.done({ w: ctx.state.w, by, recovered: true })),
  },
  handle: (error, ctx) =>
    auditedHandle(ctx, (by) =>
      error instanceof StepCrashedError || error.name === "StepAbortedError"
        ? ctx.next("recovered", { ...ctx.state, by })
        : ctx.stop(`${error.message} by=${by} end`),
    ),
});

async function strike(how: (typeof HOW)[number], ms: number): Promise<void> {
  switch (how) {
    case "exit":
      return process.exit(3);
    case "memory": {
      const hoard: number[][] = [];
      for (;;) hoard.push(Array.from({ length: 100_000 }, (_, n) => n + hoard.length));
    }
    case "block": {
      const until = performance.now() + ms;
      while (performance.now() < until) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
      return;
    }
    case "hang":
      await new Promise((resolve) => setTimeout(resolve, ms));
  }
}

export const errand = defineJob({
  name: "errand",
  queue: "side",
  args: z.object({ ...common, failures: z.number() }),
  maxAttempts: 50,
  backoff: (attempt) => 20 * attempt,
  perform: (args, ctx) =>
    auditedJob(ctx, args, (by) => {
      if (ctx.attempt < args.failures) throw new Error(`attempt ${ctx.attempt} fails`);
      return { w: args.w, by };
    }),
});
