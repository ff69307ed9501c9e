// Routes: what the shop answers over HTTP. It holds nothing: every answer comes from the database, so any number of these
// processes may run beside any number of nodes.

import { type Client, GenDurableError, type Status } from "gen-durable";
import { type Context, Hono } from "hono";
import { z } from "zod";
import { checkout, orderShape } from "./fsms/checkout.js";

/** An order's number is used once, also after the order has ended. */
const FOR_EVER: readonly Status[] = [
  "runnable",
  "executing",
  "awaiting_signal",
  "awaiting_children",
  "done",
  "failed",
];

/** How long a request may wait for an order at most. */
const WAIT_MS_MAX = 30_000;

const payment = z.object({
  event: z.string().min(1),
  order: z.number().int().positive(),
  amount: z.number().positive(),
});
const cancellation = z.object({ reason: z.string().default("") });

export function createRoutes(client: Client): Hono {
  const app = new Hono();

  app.post("/orders", async (c) => {
    const order = orderShape.parse(await c.req.json());
    const inserted = await client.insert(checkout, {
      state: order,
      correlationKey: keyOf(order.order),
      correlationScope: FOR_EVER,
    });
    return c.json({ order: order.order, created: inserted.ok }, inserted.ok ? 201 : 409);
  });

  /** The provider repeats a delivery until it has seen a 2xx, so the same event may come any number of times. */
  app.post("/webhooks/payment", async (c) => {
    const { event, order, amount } = payment.parse(await c.req.json());
    const sent = await client.signal(
      keyOf(order),
      "payment_confirmed",
      { amount },
      { dedupKey: event, fsm: checkout },
    );
    return c.json({ accepted: sent.ok }, sent.ok ? 202 : 404);
  });

  /** `?waitMs=5000` waits for the order's end so long; `&until=awaiting` for its payment to be awaited as well. */
  app.get("/orders/:order", async (c) => {
    const id = await findOrder(client, c);
    if (id === undefined) return c.json({ error: "no such order" }, 404);
    const answer = await client.waitFor(checkout, id, {
      timeoutMs: Math.min(Number(c.req.query("waitMs") ?? 0), WAIT_MS_MAX),
      until: c.req.query("until") === "awaiting" ? ["done", "failed", "awaiting"] : ["done", "failed"],
      // A caller that has gone does not wait any more.
      signal: c.req.raw.signal,
    });
    return c.json({ order: Number(c.req.param("order")), ...answer });
  });

  app.post("/orders/:order/cancel", async (c) => {
    const { reason } = cancellation.parse(await c.req.json());
    const id = await findOrder(client, c);
    if (id === undefined) return c.json({ error: "no such order" }, 404);
    return c.json({ order: Number(c.req.param("order")), answer: await client.cancel(id, reason) });
  });

  app.onError((error, c) => {
    if (error instanceof z.ZodError || error instanceof SyntaxError)
      return c.json({ error: "bad request", details: error.message }, 400);
    if (error instanceof GenDurableError && error.kind === "usage")
      return c.json({ error: error.message, code: error.code }, 400);
    if (!c.req.raw.signal.aborted) console.error(error);
    return c.json({ error: "try again" }, 503);
  });
  return app;
}

function keyOf(order: number | string): string {
  return `order:${order}`;
}

/** The order's instance: whoever occupies its key. */
async function findOrder(client: Client, c: Context): Promise<number | undefined> {
  const { instances } = await client.list({ correlationKey: keyOf(c.req.param("order") ?? "") });
  return instances[0]?.id;
}
