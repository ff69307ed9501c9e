// Step names, states and outcomes are checked by the compiler.

import { defineFsm, type Outcome } from "gen-durable";
import { z } from "zod";

const state = z.object({ n: z.number(), note: z.string().optional() });
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_equal: Equal<A, B>): void {}

export const machine = defineFsm({
  name: "machine",
  state,
  steps: {
    start: (ctx) => {
      same<typeof ctx.state, { n: number; note?: string | undefined }>(true);
      same<typeof ctx.wokenBy, "signal" | "timeout" | "children" | null>(true);
      return ctx.next("middle", { ...ctx.state, n: ctx.state.n + 1 });
    },
    middle: async (ctx) => {
      const { next, retry, done, stop } = ctx;
      if (ctx.state.n === 1) return retry(ctx.state, { delayMs: 5 });
      if (ctx.state.n === 2) return retry(ctx.state);
      if (ctx.state.n === 3)
        return next("start", { n: 1 }, { delayMs: 5, concurrencyKey: ["a", 1], rateLimit: "b" });
      if (ctx.state.n === 4)
        return next("start", { n: 1 }, { at: new Date(), concurrencyKey: null, weight: 2 });
      return ctx.state.n > 5 ? done({ any: "thing" }) : stop("no");
    },
    waiting: {
      run: (ctx) => ctx.awaitSignal(["a", "b"], "end", ctx.state, { until: new Date() }),
      timeoutMs: 5,
    },
    end: { run: async (ctx) => ctx.done(), rerunAfterCrash: false },
  },
  initial: "start",
  onCancel: "end",
  handle: async (error, ctx) => {
    same<typeof error, Error>(true);
    return ctx.attempt < 3 ? ctx.retry(ctx.state) : ctx.next("end", ctx.state);
  },
  stepTimeoutMs: 1_000,
});

defineFsm({
  name: "misspelt steps",
  state,
  steps: {
    // @ts-expect-error a step that does not exist
    start: (ctx) => ctx.next("edn", ctx.state),
    // @ts-expect-error an await that goes to a step that does not exist
    waiting: (ctx) => ctx.awaitSignal("go", "edn", ctx.state),
    // @ts-expect-error a join that goes to a step that does not exist
    joining: { run: (ctx) => ctx.scheduleChildren("edn", [], ctx.state) },
    end: (ctx) => ctx.done(),
  },
  // @ts-expect-error a step that does not exist
  handle: (_error, ctx) => ctx.next("edn", ctx.state),
});

defineFsm({
  name: "misspelt initial",
  // @ts-expect-error a step that does not exist
  initial: "strat",
  steps: { start: (ctx) => ctx.done() },
});

defineFsm({
  name: "misspelt onCancel",
  // @ts-expect-error a step that does not exist
  onCancel: "strat",
  steps: { start: (ctx) => ctx.done() },
});

defineFsm({
  name: "wrong states",
  state,
  steps: {
    // @ts-expect-error a property of the wrong type
    a: (ctx) => ctx.next("b", { n: "1" }),
    // @ts-expect-error a missing property
    b: (ctx) => ctx.retry({}),
    // @ts-expect-error a property that the schema does not know
    c: (ctx) => ctx.next("a", { n: 1, m: 2 }),
    // @ts-expect-error no state
    d: (ctx) => ctx.next("a"),
    // @ts-expect-error a Date where a number is stored
    e: (ctx) => ctx.awaitSignal("x", "a", { n: new Date() }),
    // @ts-expect-error a property that the state does not have
    f: (ctx) => ctx.done(ctx.state.m),
  },
});

defineFsm({
  name: "no outcomes",
  state,
  steps: {
    // @ts-expect-error nothing returned
    a: () => {},
    // @ts-expect-error a text is no outcome
    b: () => "done",
    // @ts-expect-error a forgotten return
    c: (ctx) => {
      ctx.done();
    },
    // @ts-expect-error a half-built outcome
    d: () => ({ kind: "done" }),
    // @ts-expect-error nothing returned on one path
    e: async (ctx) => {
      if (ctx.state.n > 1) return ctx.done();
    },
  },
});

defineFsm({
  name: "wrong options",
  state,
  steps: {
    // @ts-expect-error a misspelt option
    a: (ctx) => ctx.retry(ctx.state, { delay: 5 }),
    // @ts-expect-error a delay that is no number
    b: (ctx) => ctx.next("a", ctx.state, { delayMs: "5" }),
    // @ts-expect-error an option of next
    c: (ctx) => ctx.awaitSignal("x", "a", ctx.state, { delayMs: 5 }),
    // @ts-expect-error a reason that is no text
    d: (ctx) => ctx.stop(new Error("x")),
  },
});

// @ts-expect-error a machine without steps
defineFsm({ name: "no steps", state });

// @ts-expect-error a machine without a name
defineFsm({ steps: { a: (ctx) => ctx.done() } });

// @ts-expect-error a misspelt option
defineFsm({ name: "x", stepTimeout: 5, steps: { a: (ctx) => ctx.done() } });

// @ts-expect-error outcomes cannot be made by hand
export const forged: Outcome = {};

// Without a schema the state is any JSON object.
defineFsm({
  name: "untyped",
  steps: {
    a: (ctx) => ctx.next("b", { ...ctx.state, list: [1, { x: null }] }),
    // @ts-expect-error JSON cannot hold a Date
    b: (ctx) => ctx.next("a", { when: new Date() }),
  },
});
