// Probes that fan out and join.

import { defineFsm } from "gen-durable";
import { z } from "zod";
import { audited } from "./audited.js";

const kid = z.object({ fail: z.boolean().default(false) });

/** A child; ends done, or failed where it was told to. */
export const child = defineFsm({
  name: "child",
  state: kid,
  steps: {
    start: (ctx) => audited(ctx, () => (ctx.state.fail ? ctx.stop("told to fail") : ctx.done({ ok: true }))),
  },
});

const family = z.object({ kids: z.array(kid).default([]) });

/** Fans out one child an entry of its state and finishes with what became of them. */
export const parent = defineFsm({
  name: "parent",
  state: family,
  steps: {
    start: (ctx) =>
      audited(ctx, () =>
        ctx.scheduleChildren(
          "join",
          ctx.state.kids.map((state) => child.child({ state })),
          ctx.state,
        ),
      ),
    join: (ctx) =>
      audited(ctx, () => ctx.done({ statuses: ctx.children.map((one) => one.status) }), ctx.children.length),
  },
});

/** The same; its children live in the queue `kids`. */
export const xparent = defineFsm({
  name: "xparent",
  state: family,
  steps: {
    start: (ctx) =>
      audited(ctx, () =>
        ctx.scheduleChildren(
          "join",
          ctx.state.kids.map((state) => child.child({ state, queue: "kids" })),
          ctx.state,
        ),
      ),
    join: (ctx) =>
      audited(ctx, () => ctx.done({ statuses: ctx.children.map((one) => one.status) }), ctx.children.length),
  },
});
