// The child: one line of an order, picked and packed. A line that cannot be delivered fails; what that means is its parent's
// business.

import { defineFsm } from "gen-durable";
import { z } from "zod";

export const packedLine = z.object({ sku: z.string(), packed: z.number().int() });

export const orderLine = defineFsm({
  name: "order-line",
  queue: "warehouse",
  state: z.object({ sku: z.string(), quantity: z.number().int().positive() }),
  result: packedLine,
  steps: {
    pick: (ctx) =>
      ctx.state.sku.startsWith("sold-out")
        ? ctx.stop(`${ctx.state.sku} is sold out`)
        : ctx.next("pack", ctx.state),
    pack: (ctx) => ctx.done({ sku: ctx.state.sku, packed: ctx.state.quantity }),
  },
});
