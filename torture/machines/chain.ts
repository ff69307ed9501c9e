// Chains: steps that follow each other, with delays, keys, gates, rates and priorities on the way as their state says.

import { defineFsm, type Key, type NextOptions } from "gen-durable";
import { z } from "zod";
import { audited, common } from "./audited.js";

const key = z.union([z.string(), z.tuple([z.string(), z.union([z.string(), z.number()])])]);

/** What one transition asks for. */
export const turn = z.object({
  key: key.nullable().optional(),
  rate: key.optional(),
  weight: z.number().optional(),
  delayMs: z.number().optional(),
  inline: z.boolean().optional(),
});
export type Turn = z.input<typeof turn>;

const state = z.object({
  ...common,
  hop: z.number().default(0),
  hops: z.number(),
  /** How long each step takes. */
  workMs: z.number().default(0),
  /** One a hop; beyond the list nothing is asked for. */
  turns: z.array(turn).default([]),
});

export function optionsOf(asked: z.output<typeof turn> | undefined): NextOptions {
  if (asked === undefined) return {};
  const { key, rate, weight, delayMs, inline } = asked;
  return {
    ...(key === undefined ? {} : { concurrencyKey: key as Key | null }),
    ...(rate === undefined ? {} : { rateLimit: rate as Key }),
    ...(weight === undefined ? {} : { weight }),
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(inline === undefined ? {} : { inline }),
  };
}

export const chain = defineFsm({
  name: "chain",
  queue: "main",
  state,
  steps: {
    walk: (ctx) =>
      audited(ctx, async (by) => {
        const { w, hop, hops, workMs, turns } = ctx.state;
        if (workMs > 0) await new Promise((resolve) => setTimeout(resolve, workMs));
        if (hop >= hops) return ctx.done({ w, by, hops: hop });
        return ctx.next("walk", { ...ctx.state, hop: hop + 1, by }, optionsOf(turns[hop]));
      }),
  },
});

/** The same, run ahead on the claim already held. */
export const runner = defineFsm({
  name: "runner",
  queue: "main",
  inline: true,
  state,
  steps: {
    run: (ctx) =>
      audited(ctx, async (by) => {
        const { w, hop, hops, workMs, turns } = ctx.state;
        if (workMs > 0) await new Promise((resolve) => setTimeout(resolve, workMs));
        if (hop >= hops) return ctx.done({ w, by, hops: hop });
        return ctx.next(
          hop % 2 === 0 ? "on" : "run",
          { ...ctx.state, hop: hop + 1, by },
          optionsOf(turns[hop]),
        );
      }),
    on: (ctx) =>
      audited(ctx, (by) => {
        const { w, hop, hops, turns } = ctx.state;
        if (hop >= hops) return ctx.done({ w, by, hops: hop });
        return ctx.next("run", { ...ctx.state, hop: hop + 1, by }, optionsOf(turns[hop]));
      }),
  },
});

/** Retries a number of times before it is done. */
export const retrier = defineFsm({
  name: "retrier",
  queue: "main",
  state: z.object({ ...common, times: z.number(), tries: z.number().default(0), delayMs: z.number() }),
  steps: {
    attempt: (ctx) =>
      audited(ctx, (by) => {
        const { w, times, tries, delayMs } = ctx.state;
        if (tries >= times) return ctx.done({ w, by, tries });
        return ctx.retry({ ...ctx.state, tries: tries + 1, by }, { delayMs });
      }),
  },
});
