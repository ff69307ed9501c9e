// The machine that the guides talk about.

import { defineFsm } from "gen-durable";
import { z } from "zod";

export const checkout = defineFsm({
  name: "checkout",
  version: 1,
  queue: "checkout",
  state: z.object({ order: z.number().int(), paid: z.number().default(0) }),
  steps: {
    start: (ctx) => ctx.awaitSignal("payment_confirmed", "ship", ctx.state, { timeoutMs: 3_600_000 }),
    ship: (ctx) =>
      ctx.wokenBy === "timeout" ? ctx.stop("payment never came") : ctx.done({ order: ctx.state.order }),
  },
  handle: (error, ctx) =>
    ctx.attempt < 5 ? ctx.retry(ctx.state, { delayMs: 1_000 * (ctx.attempt + 1) }) : ctx.stop(error.message),
});
