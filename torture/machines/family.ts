// Family: fan-outs of itself, in one or two rounds, over several queues; each join counts what it was shown.

import { childOf, defineFsm, type Outcome } from "gen-durable";
import { z } from "zod";
import { audited, common } from "./audited.js";

const counted = z.object({ leaves: z.number() });

export const family = defineFsm({
  name: "family",
  queue: "bulk",
  state: z.object({
    ...common,
    depth: z.number(),
    width: z.number(),
    rounds: z.number().default(1),
    queues: z.array(z.string()),
    /** This leaf is to fail. */
    fails: z.boolean().default(false),
    leaves: z.number().default(0),
  }),
  steps: {
    grow: (ctx): Promise<Outcome> =>
      audited(ctx, (by) => {
        const { w, depth, width, queues, fails } = ctx.state;
        if (depth === 0)
          return fails ? ctx.stop(`a leaf fails by=${by} end`) : ctx.done({ w, by, leaves: 1 });
        const children = Array.from({ length: width }, (_, n) =>
          childOf("family", {
            state: { w, depth: depth - 1, width, queues, fails: depth === 1 && n % 5 === 4 },
            queue: queues[n % queues.length] ?? "bulk",
            priority: n % 3,
          }),
        );
        return ctx.scheduleChildren("join", children, { ...ctx.state, by });
      }),
    join: (ctx): Promise<Outcome> =>
      audited(ctx, (by) => {
        const { w, rounds } = ctx.state;
        const leaves = ctx.children.reduce(
          (sum, child) => sum + (child.status === "done" ? counted.parse(child.result).leaves : 1),
          0,
        );
        if (rounds > 1) return ctx.next("grow", { ...ctx.state, by, rounds: rounds - 1, leaves });
        return ctx.done({ w, by, leaves });
      }),
  },
});
