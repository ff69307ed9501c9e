// Probes that wait for signals.

import { defineFsm } from "gen-durable";
import { z } from "zod";
import { audited } from "./audited.js";

/** Awaits `go`; the next step finishes with the payload that it was woken by. */
export const awaiter = defineFsm({
  name: "awaiter",
  state: z.object({}),
  steps: {
    start: (ctx) => audited(ctx, () => ctx.awaitSignal("go", "woken", ctx.state)),
    woken: (ctx) => audited(ctx, () => ctx.done(ctx.awaited[0]?.payload), ctx.awaited),
  },
});

/** The same with a deadline of `timeoutMs`; finishes "timed out" when nothing came. */
export const awaitTimeout = defineFsm({
  name: "awaitTimeout",
  state: z.object({ timeoutMs: z.number().default(300) }),
  steps: {
    start: (ctx) =>
      audited(ctx, () => ctx.awaitSignal("go", "woken", ctx.state, { timeoutMs: ctx.state.timeoutMs })),
    woken: (ctx) =>
      audited(
        ctx,
        () => ctx.done(ctx.wokenBy === "timeout" ? "timed out" : ctx.awaited[0]?.payload),
        ctx.wokenBy,
      ),
  },
});

/** Awaits approve or reject, finishes with which one and its payload. */
export const selector = defineFsm({
  name: "selector",
  state: z.object({}),
  steps: {
    start: (ctx) => audited(ctx, () => ctx.awaitSignal(["approve", "reject"], "chosen", ctx.state)),
    chosen: (ctx) =>
      audited(ctx, () => ctx.done({ name: ctx.awaited[0]?.name, payload: ctx.awaited[0]?.payload })),
  },
});

/** Awaits again until a, b and c are all there, then sums their payloads. */
export const collector = defineFsm({
  name: "collector",
  state: z.object({}),
  signals: { a: z.number(), b: z.number(), c: z.number() },
  steps: {
    start: (ctx) => audited(ctx, () => ctx.awaitSignal(["a", "b", "c"], "collect", ctx.state)),
    collect: (ctx) =>
      audited(ctx, () => {
        const names = new Set(ctx.awaited.map((signal) => signal.name));
        if (names.size < 3) return ctx.awaitSignal(["a", "b", "c"], "collect", ctx.state);
        return ctx.done({ sum: ctx.awaited.reduce((sum, signal) => sum + signal.payload, 0) });
      }),
  },
});

/** Retries once after its wake; both tries note what they were woken by. */
export const awaitRetry = defineFsm({
  name: "awaitRetry",
  state: z.object({}),
  steps: {
    start: (ctx) => audited(ctx, () => ctx.awaitSignal("go", "woken", ctx.state)),
    woken: (ctx) =>
      audited(
        ctx,
        () => (ctx.attempt === 0 ? ctx.retry(ctx.state) : ctx.done(ctx.awaited[0]?.payload)),
        ctx.awaited,
      ),
  },
});
