// The machines whose cost is counted: the least user code of each kind.

import { defineFsm } from "gen-durable";
import { z } from "zod";

const state = z.object({ n: z.number().default(0) });

/** Done at once. */
export const one = defineFsm({ name: "one", state, steps: { only: (ctx) => ctx.done() } });

/** Five steps, each claimed anew. */
export const chain = defineFsm({
  name: "chain",
  state,
  steps: { step: (ctx) => (ctx.state.n < 5 ? ctx.next("step", { n: ctx.state.n + 1 }) : ctx.done()) },
});

/** Five steps on the claim of the first. */
export const inline = defineFsm({
  name: "inline",
  inline: true,
  state,
  steps: { step: (ctx) => (ctx.state.n < 5 ? ctx.next("step", { n: ctx.state.n + 1 }) : ctx.done()) },
});

/** Parks on a signal, and is done when it has come. */
export const waiter = defineFsm({
  name: "waiter",
  state,
  steps: { wait: (ctx) => ctx.awaitSignal("go", "end", ctx.state), end: (ctx) => ctx.done() },
});

/** Spawns n of `one`, and is done when all of them are. */
export const family = defineFsm({
  name: "family",
  state,
  steps: {
    spawn: (ctx) =>
      ctx.scheduleChildren(
        "joined",
        Array.from({ length: ctx.state.n }, (_, n) => one.child({ state: { n } })),
        ctx.state,
      ),
    joined: (ctx) => ctx.done(),
  },
});
