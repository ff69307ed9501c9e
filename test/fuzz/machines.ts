// Machines whose steps hand over what their state names: values of hostile.ts, made inside the thread that runs them.

import { defineFsm, type Outcome } from "gen-durable";
import { z } from "zod";
import { HOSTILE } from "./hostile.js";

export const WAYS = [
  "return",
  "throw",
  "reject",
  "result",
  "state",
  "reason",
  "delay",
  "key",
  "step",
  "names",
  "children",
  "options",
] as const;

/** The context as a caller from JavaScript has it: anything goes. */
interface LooseContext {
  state: { way: number; n: number };
  attempt: number;
  next(...given: unknown[]): Outcome;
  retry(...given: unknown[]): Outcome;
  awaitSignal(...given: unknown[]): Outcome;
  scheduleChildren(...given: unknown[]): Outcome;
  done(...given: unknown[]): Outcome;
  stop(...given: unknown[]): Outcome;
}

function hand(ctx: LooseContext, way: (typeof WAYS)[number], value: unknown): unknown {
  switch (way) {
    case "return":
      return value;
    case "throw":
      throw value;
    case "reject":
      return Promise.reject(value);
    case "result":
      return ctx.done(value);
    case "state":
      return ctx.next("end", value);
    case "reason":
      return ctx.stop(value);
    case "delay":
      return ctx.retry(ctx.state, { delayMs: value });
    case "key":
      return ctx.next("end", ctx.state, { concurrencyKey: ["k", value] });
    case "step":
      return ctx.next(value, ctx.state);
    case "names":
      return ctx.awaitSignal([value], "end", ctx.state, { timeoutMs: 1 });
    case "children":
      return ctx.scheduleChildren("end", [value], ctx.state);
    case "options":
      return ctx.next("end", ctx.state, value);
  }
}

function start(given: unknown): Outcome {
  const ctx = given as LooseContext; // the types would refuse what this test is about
  if (ctx.attempt > 0) return ctx.done();
  const value = HOSTILE[ctx.state.n]?.make();
  return hand(ctx, WAYS[ctx.state.way] ?? "return", value) as Outcome;
}

export const handed = defineFsm({ name: "handed", steps: { start, end: (ctx) => ctx.done() } });
export const handled = defineFsm({
  name: "handled",
  steps: { start, end: (ctx) => ctx.done() },
  handle: (error, given) => {
    const ctx = given as unknown as LooseContext;
    const ways = ["throw", "return", "reason", "result"] as const;
    return hand(ctx, ways[ctx.state.n % 4] ?? "throw", error) as Outcome;
  },
});
export const innocent = defineFsm({
  name: "innocent",
  state: z.object({ n: z.number() }),
  result: z.object({ n: z.number() }),
  steps: { start: (ctx) => ctx.done(ctx.state) },
});
