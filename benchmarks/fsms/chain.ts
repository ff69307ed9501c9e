// The machines of the chain benchmark.

import { defineFsm, type Outcome } from "gen-durable";
import { z } from "zod";

interface Link {
  n: number;
  last: number;
}

const link = z.object({ n: z.number(), last: z.number() });

const walk = (ctx: {
  state: Link;
  next(step: "walk", state: Link): Outcome;
  done(result: unknown): Outcome;
}): Outcome =>
  ctx.state.n >= ctx.state.last
    ? ctx.done({ n: ctx.state.n })
    : ctx.next("walk", { n: ctx.state.n + 1, last: ctx.state.last });

/** Steps `n` to `last`, one after the other, each claimed anew. */
export const requeued = defineFsm({ name: "requeued", queue: "bench", state: link, steps: { walk } });

/** The same, each on the claim of the one before. */
export const inline = defineFsm({
  name: "inline",
  queue: "bench",
  inline: true,
  state: link,
  steps: { walk },
});
