// The chain that runs ahead: its next step runs in the same thread as soon as the commit of the one before is acknowledged.

import { defineFsm } from "gen-durable";
import { z } from "zod";
import { tell } from "./tell.mjs";

export const chainInline = defineFsm({
  name: "chainInline",
  queue: "peers",
  inline: true,
  state: z.object({ n: z.number() }),
  steps: {
    step1: (ctx) => {
      tell(ctx.state.n);
      return ctx.next("step2", { n: ctx.state.n + 1 });
    },
    step2: (ctx) => ctx.next("step3", { n: ctx.state.n + 1 }),
    step3: (ctx) => ctx.next("step4", { n: ctx.state.n + 1 }),
    step4: (ctx) => ctx.next("step5", { n: ctx.state.n + 1 }),
    step5: (ctx) => ctx.done(),
  },
});
