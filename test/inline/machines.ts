// Machines of these tests: one that walks a plan, a step a stop, with run-ahead and without. A node loads this file; the tests
// take the definitions from it.

import { setTimeout as sleep } from "node:timers/promises";
import { defineFsm, type Outcome, type StepContext } from "gen-durable";
import { z } from "zod";
import { audited, untilLetGo } from "../support/probes/audited.js";

/** What one step does before it hands over to the next, and how it hands over. */
const stop = z.object({
  /** Blocks until the test lets this name go. */
  hold: z.string().optional(),
  ms: z.number().optional(),
  /** Blocks the thread's loop for so long. */
  blockMs: z.number().optional(),
  /** Ends its thread, the first time. */
  exit: z.boolean().optional(),
  /** The next step; "walk" unless it is said. */
  step: z.enum(["walk", "once"]).default("walk"),
  /** Options of `next`. */
  to: z
    .object({
      concurrencyKey: z.string().nullable().optional(),
      rateLimit: z.string().optional(),
      weight: z.number().optional(),
      inline: z.boolean().optional(),
      delayMs: z.number().optional(),
    })
    .default({}),
  /** Instead of going on. */
  instead: z.enum(["stop", "throw", "await", "children", "retry"]).optional(),
});

export type Stop = z.input<typeof stop>;

const plan = z.object({
  stops: z.array(stop),
  at: z.number().default(0),
  seen: z.array(z.string()).default([]),
});
type Plan = z.output<typeof plan>;
type Walk = StepContext<Plan, "walk" | "once" | "cleanUp">;

export const leaf = defineFsm({
  name: "leaf",
  state: z.object({ n: z.number() }),
  steps: { start: (ctx) => ctx.done(ctx.state.n) },
});

/** What a step finds: all that must be the same with run-ahead and without. */
function found(ctx: Walk): string {
  const names = (signals: readonly { name: string }[]): string => signals.map(({ name }) => name).join("+");
  const kids = ctx.children.map(({ status, result }) => `${status}:${String(result)}`).join("+");
  return `${ctx.state.at}|${ctx.attempt}|${ctx.wokenBy}|${names(ctx.inbox)}|${names(ctx.awaited)}|${kids}`;
}

async function walk(ctx: Walk): Promise<Outcome> {
  const { stops, at, seen } = ctx.state;
  const here = stops[at] ?? stop.parse({});
  const next = { stops, at: at + 1, seen: [...seen, found(ctx)] };
  if (here.hold !== undefined) await untilLetGo(here.hold, ctx.signal);
  if (here.ms !== undefined) await sleep(here.ms);
  if (here.blockMs !== undefined) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, here.blockMs);
  if (here.exit === true && ctx.attempt === 0) process.exit(9);
  switch (here.instead) {
    case "stop":
      return ctx.stop(`stopped at ${at}`);
    case "throw":
      throw new Error(`thrown at ${at}`);
    case "await":
      return ctx.awaitSignal("go", "walk", next, { timeoutMs: 60_000 });
    case "children":
      return ctx.scheduleChildren("walk", [leaf.child({ state: { n: at } })], next);
    case "retry":
      return ctx.attempt < 2 ? ctx.retry(ctx.state) : ctx.next(here.step, next, here.to);
    default:
      return at + 1 >= stops.length ? ctx.done(next.seen) : ctx.next(here.step, next, here.to);
  }
}

const steps = {
  walk: (ctx: Walk) => audited(ctx, () => walk(ctx), { at: ctx.state.at, key: ctx.idempotencyKey }),
  once: { run: (ctx: Walk) => audited(ctx, () => walk(ctx)), rerunAfterCrash: false },
  cleanUp: (ctx: Walk) => audited(ctx, () => ctx.done(`cleaned up: ${ctx.cancelReason}`)),
};

const common = {
  state: plan,
  steps,
  onCancel: "cleanUp",
  handle: (error: Error, ctx: Walk): Outcome =>
    error.message.startsWith("thrown")
      ? ctx.next("walk", { ...ctx.state, at: ctx.state.at + 1 })
      : ctx.stop(error.message),
} as const;

export const chained = defineFsm({ ...common, name: "chained", inline: true });
export const requeued = defineFsm({ ...common, name: "requeued" });

/** Its second step must not outlast its time limit. */
export const limited = defineFsm({
  name: "limited",
  inline: true,
  state: z.object({ ms: z.number() }),
  steps: {
    first: (ctx) => audited(ctx, () => ctx.next("second", { ms: ctx.state.ms + 1 })),
    second: {
      timeoutMs: 100,
      run: (ctx) =>
        audited(ctx, () => {
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ctx.state.ms);
          return ctx.done("in time");
        }),
    },
  },
  handle: (error, ctx) => ctx.done({ step: ctx.step, ms: ctx.state.ms, error: error.name }),
});
