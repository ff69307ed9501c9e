// Waiting: machines that park. What they heard goes into their results, where the checker compares it with what was sent.

import { defineFsm } from "gen-durable";
import { z } from "zod";
import { audited, common, visitOf } from "./audited.js";

/** Payloads of the harness: a number by which the signal is known. */
const sigOf = (payload: unknown): number => z.object({ sig: z.number() }).parse(payload).sig;

/** Awaits one of its names, for some rounds, with or without a timeout. */
export const waiter = defineFsm({
  name: "waiter",
  queue: "main",
  state: z.object({
    ...common,
    names: z.array(z.string()),
    rounds: z.number(),
    timeoutMs: z.number().nullable(),
    heard: z.array(z.number()).default([]),
    timeouts: z.number().default(0),
    /** The first try of each woken visit retries: it must be handed the same again. */
    retries: z.boolean().default(false),
  }),
  steps: {
    start: (ctx) =>
      audited(ctx, (by) =>
        ctx.awaitSignal(ctx.state.names, "woken", { ...ctx.state, by }, timeoutOf(ctx.state)),
      ),
    woken: (ctx) =>
      audited(ctx, (by) => {
        if (ctx.state.retries && ctx.attempt === 0) return ctx.retry({ ...ctx.state, by }, { delayMs: 1 });
        const heard = [...ctx.state.heard, ...ctx.awaited.map(({ payload }) => sigOf(payload))];
        const timeouts = ctx.state.timeouts + (ctx.wokenBy === "timeout" ? 1 : 0);
        const { w, rounds } = ctx.state;
        if (rounds <= 1) return ctx.done({ w, by, heard, timeouts });
        // Through a transition of its own, so that what was heard is consumed before the next park.
        return ctx.next("start", { ...ctx.state, by, heard, timeouts, rounds: rounds - 1 });
      }),
  },
});

/** Collects `want` signals without consuming any, then ends with all of them. */
export const pack = defineFsm({
  name: "pack",
  queue: "side",
  state: z.object({ ...common, want: z.number() }),
  steps: {
    collect: (ctx) =>
      audited(ctx, (by) => {
        const { w, want } = ctx.state;
        const heard = ctx.inbox.filter(({ name }) => name === "part").map(({ payload }) => sigOf(payload));
        if (heard.length >= want) return ctx.done({ w, by, heard });
        return ctx.awaitSignal("part", "collect", { ...ctx.state, by });
      }),
  },
});

/** Waits, or runs for a while, until it is cancelled or done; its clean-up is a step. */
export const victim = defineFsm({
  name: "victim",
  queue: "side",
  onCancel: "cleanUp",
  state: z.object({ ...common, parks: z.boolean(), holdMs: z.number() }),
  steps: {
    start: (ctx) =>
      audited(ctx, async (by) => {
        if (ctx.state.parks)
          return ctx.awaitSignal("never", "end", { ...ctx.state, by }, { timeoutMs: ctx.state.holdMs });
        await pause(ctx.state.holdMs, ctx.signal);
        return ctx.next("end", { ...ctx.state, by });
      }),
    end: (ctx) => audited(ctx, (by) => ctx.done({ w: ctx.state.w, by, cancelled: false })),
    cleanUp: (ctx) => audited(ctx, (by) => ctx.done({ w: ctx.state.w, by, cancelled: true })),
  },
});

/** The same without a clean-up: a cancel fails it. */
export const bystander = defineFsm({
  name: "bystander",
  queue: "side",
  state: z.object({ ...common, holdMs: z.number() }),
  steps: {
    start: (ctx) =>
      audited(ctx, async (by) => {
        await pause(ctx.state.holdMs, ctx.signal);
        return ctx.next("end", { ...ctx.state, by });
      }),
    end: (ctx) => audited(ctx, (by) => ctx.done({ w: ctx.state.w, by, cancelled: false })),
  },
});

/** Fails until it has been retried often enough. */
export const fragile = defineFsm({
  name: "fragile",
  queue: "side",
  state: z.object({ ...common, fails: z.number() }),
  steps: {
    attempt: (ctx) =>
      audited(ctx, (by) =>
        visitOf(ctx) > ctx.state.fails
          ? ctx.done({ w: ctx.state.w, by })
          : ctx.stop(`failed on visit ${visitOf(ctx)} by=${by} end`),
      ),
  },
});

/** Leaves its correlation scope when it parks, and comes back into it. */
export const roamer = defineFsm({
  name: "roamer",
  queue: "side",
  state: z.object({ ...common, rounds: z.number(), napMs: z.number() }),
  steps: {
    roam: (ctx) =>
      audited(ctx, (by) => {
        const { w, rounds, napMs } = ctx.state;
        if (rounds <= 0) return ctx.done({ w, by });
        return ctx.awaitSignal(
          "never",
          "roam",
          { ...ctx.state, rounds: rounds - 1, by },
          { timeoutMs: napMs },
        );
      }),
  },
});

function timeoutOf({ timeoutMs }: { timeoutMs: number | null }) {
  return timeoutMs === null ? {} : { timeoutMs };
}

/** Ends early when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
