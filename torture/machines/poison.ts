// Poison: steps that hand over or throw what nothing can store, in a commit that they share with innocent neighbours.

import { defineFsm, type Outcome } from "gen-durable";
import { z } from "zod";
import { audited, auditedHandle, common } from "./audited.js";

export const POISONS = [
  "nul in result",
  "nul in reason",
  "lone surrogate",
  "bigint",
  "cycle",
  "too large",
  "date",
  "unknown step",
  "unknown child",
  "no outcome",
  "throws undefined",
  "throws text with nul",
  "throws hostile error",
  "rejects symbol",
  "stray rejection",
] as const;

const TOO_LARGE_BYTES = 300_000;

export const poison = defineFsm({
  name: "poison",
  queue: "main",
  state: z.object({ ...common, how: z.enum(POISONS), mends: z.boolean() }),
  steps: {
    poisoned: (ctx) => audited(ctx, (by) => spill(ctx.state.how, by, ctx as unknown as Loose)),
    mended: (ctx) => audited(ctx, (by) => ctx.done({ w: ctx.state.w, by, mended: true })),
  },
  handle: (_error, ctx) =>
    auditedHandle(ctx, (by) =>
      ctx.state.mends
        ? ctx.next("mended", { ...ctx.state, by })
        : ctx.stop(`poisoned: ${ctx.state.how} by=${by} end`),
    ),
});

// What the compiler refuses, callers in JavaScript do all the same.
type Loose = Record<"next" | "scheduleChildren" | "done" | "stop", (...given: unknown[]) => Outcome> & {
  state: object;
};

function spill(how: (typeof POISONS)[number], by: string, ctx: Loose): Outcome | Promise<Outcome> {
  switch (how) {
    case "nul in result":
      return ctx.done("a\0b");
    case "nul in reason":
      throw new Error("before\0after");
    case "lone surrogate":
      return ctx.done({ text: "\ud800" });
    case "bigint":
      return ctx.done({ value: 1n });
    case "cycle": {
      const ring: Record<string, unknown> = {};
      ring.self = ring;
      return ctx.next("mended", { ...ctx.state, ring });
    }
    case "too large":
      return ctx.done("x".repeat(TOO_LARGE_BYTES));
    case "date":
      return ctx.done(new Date(0));
    case "unknown step":
      return ctx.next("nowhere", ctx.state);
    case "unknown child":
      return ctx.scheduleChildren("mended", [{ fsm: "nobody" }], ctx.state);
    case "no outcome":
      return undefined as unknown as Outcome;
    case "throws undefined":
      throw undefined;
    case "throws text with nul":
      throw "text\0with\ud800";
    case "throws hostile error":
      throw hostileError();
    case "rejects symbol":
      return Promise.reject(Symbol("poison"));
    case "stray rejection":
      void Promise.reject(new Error("nobody catches this"));
      return ctx.next("mended", { ...ctx.state, by });
  }
}

/** An error whose own properties throw when they are looked at. */
function hostileError(): Error {
  const error = new Error("hostile");
  for (const property of ["message", "stack", "cause", "name", "code"]) {
    Object.defineProperty(error, property, {
      get() {
        throw new Error(`${property} cannot be read`);
      },
    });
  }
  return error;
}
