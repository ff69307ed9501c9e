// Machines for the tests of a client against a real node.

import { defineFsm } from "gen-durable";
import { z } from "zod";

/** Runs until its signal aborts; ends as its outcome says, which a cancel turns into the cancellation. */
export const patient = defineFsm({
  name: "patient",
  steps: {
    start: async (ctx) => {
      if (!ctx.signal.aborted)
        await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve, { once: true }));
      return ctx.done("ended by itself");
    },
  },
});

/** The same, and cleans up. */
export const tidy = defineFsm({
  name: "tidy",
  state: z.object({ parks: z.boolean().default(false) }),
  steps: {
    start: async (ctx) => {
      if (ctx.state.parks) return ctx.awaitSignal("never", "end", ctx.state);
      if (!ctx.signal.aborted)
        await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve, { once: true }));
      return ctx.next("end", ctx.state);
    },
    end: (ctx) => ctx.done("ended by itself"),
    clean: (ctx) => ctx.done({ cleaned: ctx.cancelReason }),
  },
  onCancel: "clean",
});

/** Fails until told otherwise by a signal in its inbox. */
export const fickle = defineFsm({
  name: "fickle",
  steps: { start: (ctx) => (ctx.inbox.length > 0 ? ctx.done(ctx.inbox[0]?.payload) : ctx.stop("not yet")) },
});

/** Awaits `go`, and finishes with what came. */
export const listener = defineFsm({
  name: "listener",
  queue: "listeners",
  steps: {
    start: (ctx) => ctx.awaitSignal("go", "woken", ctx.state),
    woken: (ctx) => ctx.done(ctx.awaited.map((signal) => signal.payload)),
  },
});
