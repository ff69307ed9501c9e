// Probes under limits. Their limits come with the rows that the test inserts.

import { setTimeout as sleep } from "node:timers/promises";
import { defineFsm } from "gen-durable";
import { z } from "zod";
import { audited } from "./audited.js";

/** So many steps of `ms` each; the limits of the first stay as the engine keeps them. */
export const steps = defineFsm({
  name: "steps",
  state: z.object({ left: z.number().default(1), ms: z.number().default(0) }),
  steps: {
    step: (ctx) =>
      audited(ctx, async () => {
        if (ctx.state.ms > 0) await sleep(ctx.state.ms);
        const left = ctx.state.left - 1;
        return left <= 0 ? ctx.done() : ctx.next("step", { ...ctx.state, left });
      }),
  },
});
