// The machines that do what the other engines' jobs do. They run in the node's executor threads.

import { defineFsm } from "gen-durable";
import { z } from "zod";
import { tell } from "./tell.mjs";

export const one = defineFsm({
  name: "one",
  queue: "peers",
  state: z.object({ n: z.number() }),
  steps: {
    only: (ctx) => {
      tell(ctx.state.n);
      return ctx.done();
    },
  },
});

/** Five steps, each committed before the next begins. */
export const chain = defineFsm({
  name: "chain",
  queue: "peers",
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

export const leaf = defineFsm({
  name: "leaf",
  queue: "peers",
  state: z.object({ n: z.number() }),
  steps: { only: (ctx) => ctx.done() },
});

export const family = defineFsm({
  name: "family",
  queue: "peers",
  state: z.object({ children: z.number() }),
  steps: {
    spawn: (ctx) =>
      ctx.scheduleChildren(
        "joined",
        Array.from({ length: ctx.state.children }, (_, n) => leaf.child({ state: { n } })),
        ctx.state,
      ),
    joined: (ctx) => ctx.done(),
  },
});
