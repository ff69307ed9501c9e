// The machine of an order: it waits for its payment, in one piece or several, has its lines packed, and ships them.

import { defineFsm } from "gen-durable";
import { z } from "zod";
import { orderLine, packedLine } from "./orderLine.js";

/** An order that is not paid for so long is given up: an hour, unless the demo is in a hurry. */
const PAYMENT_TIMEOUT_MS = Number(process.env.CHECKOUT_PAYMENT_TIMEOUT_MS ?? 3_600_000);

export const orderShape = z.object({
  order: z.number().int().positive(),
  total: z.number().positive(),
  lines: z.array(z.object({ sku: z.string(), quantity: z.number().int().positive() })).min(1),
});

export const checkout = defineFsm({
  name: "checkout",
  queue: "checkout",
  state: orderShape,
  result: z.object({
    order: z.number().int(),
    shipped: z.array(z.string()),
    missing: z.array(z.string()),
    cancelled: z.string().optional(),
  }),
  signals: { payment_confirmed: z.object({ amount: z.number().positive() }) },
  steps: {
    start: (ctx) =>
      ctx.awaitSignal("payment_confirmed", "paid", ctx.state, { timeoutMs: PAYMENT_TIMEOUT_MS }),
    paid: (ctx) => {
      if (ctx.wokenBy === "timeout") return ctx.stop("the payment never came");
      const paid = ctx.awaited.reduce((sum, { payload }) => sum + payload.amount, 0);
      // Awaiting again consumes nothing: the next payment is added to those that are here.
      if (paid < ctx.state.total)
        return ctx.awaitSignal("payment_confirmed", "paid", ctx.state, { timeoutMs: PAYMENT_TIMEOUT_MS });
      const lines = ctx.state.lines.map((state) => orderLine.child({ state }));
      return ctx.scheduleChildren("ship", lines, ctx.state);
    },
    // The join waits for every line to end, not to succeed.
    ship: (ctx) => {
      const packed = ctx.children.filter((line) => line.status === "done");
      const shipped = packed.map((line) => packedLine.parse(line.result).sku);
      const missing = ctx.state.lines.map(({ sku }) => sku).filter((sku) => !shipped.includes(sku));
      return ctx.done({ order: ctx.state.order, shipped, missing });
    },
    /** Where a real shop would give reserved goods and money back. */
    giveBack: (ctx) =>
      ctx.done({ order: ctx.state.order, shipped: [], missing: [], cancelled: ctx.cancelReason ?? "" }),
  },
  onCancel: "giveBack",
});
