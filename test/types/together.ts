// Machines whose steps live elsewhere, jobs, children, and machines that spawn themselves or each other.

import {
  type Child,
  childOf,
  defineFsm,
  defineJob,
  type InputOfFsm,
  type Outcome,
  type ResultOfFsm,
} from "gen-durable";
import { z } from "zod";
import { bill, ship, state, typed, wrongState } from "./elsewhere.js";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_equal: Equal<A, B>): void {}

export const order = defineFsm({
  name: "order",
  state,
  steps: {
    start: (ctx) => ctx.next("ship", ctx.state),
    ship,
    bill: { run: bill, timeoutMs: 5 },
    end: (ctx) => ctx.done(),
  },
});
same<InputOfFsm<typeof order>, { order: number; paid?: number | undefined }>(true);

export const typedElsewhere = defineFsm({
  name: "typed",
  state,
  result: z.object({ total: z.number() }),
  signals: { go: z.number() },
  steps: { start: typed, end: (ctx) => ctx.done({ total: 1 }) },
});

// @ts-expect-error its steps go to "bill", which this machine does not have
defineFsm({ name: "x", state, steps: { ship, end: (ctx) => ctx.done() } });

// @ts-expect-error its state is another one
defineFsm({ name: "x", state, steps: { wrongState, end: (ctx) => ctx.done() } });

// Children carry the state that their machine takes.
const kid = defineFsm({
  name: "kid",
  state: z.object({ n: z.number(), m: z.number().default(1) }),
  steps: { a: (ctx) => ctx.done() },
});
const plain = defineFsm({ name: "plain", steps: { a: (ctx) => ctx.done() } });
export const children: Child[] = [
  kid.child({ state: { n: 1 } }),
  kid.child({
    state: { n: 1, m: 2 },
    queue: "q",
    priority: 1,
    correlationKey: "k",
    correlationScope: ["done"],
    delayMs: 5,
  }),
  plain.child(),
  plain.child({ at: new Date(), concurrencyKey: ["a", 1], rateLimit: "b", weight: 2 }),
  childOf("kid", { state: { n: 1 }, version: 2 }),
];
// @ts-expect-error a state of the wrong shape
kid.child({ state: { n: "1" } });
// @ts-expect-error no state
kid.child({ queue: "q" });
// @ts-expect-error no options
kid.child();
// @ts-expect-error a misspelt option
kid.child({ state: { n: 1 }, prio: 1 });
// @ts-expect-error an unknown status
kid.child({ state: { n: 1 }, correlationScope: ["gone"] });

export const parent = defineFsm({
  name: "parent",
  state: z.object({ results: z.array(z.number()) }),
  steps: {
    start: (ctx) => ctx.scheduleChildren("join", children, ctx.state),
    join: (ctx) => {
      const failed = ctx.children.filter((child) => child.status === "failed").map((child) => child.error);
      return failed.length > 0
        ? ctx.stop(failed.join())
        : ctx.done(ctx.children.map((child) => child.result));
    },
    // @ts-expect-error what is no child
    wrong: (ctx) => ctx.scheduleChildren("join", [{ fsm: "kid" }], ctx.state),
  },
});

// A machine may spawn itself: the step states what it returns, so that the compiler need not look into it.
export const tree = defineFsm({
  name: "tree",
  state: z.object({ depth: z.number() }),
  steps: {
    start: (ctx): Outcome =>
      ctx.state.depth === 0
        ? ctx.done(1)
        : ctx.scheduleChildren("join", [tree.child({ state: { depth: ctx.state.depth - 1 } })], ctx.state),
    join: (ctx) => ctx.done(ctx.children.length),
  },
});

// And machines each other.
export const ping = defineFsm({
  name: "ping",
  state: z.object({ n: z.number() }),
  steps: {
    start: (ctx): Outcome =>
      ctx.scheduleChildren("end", [pong.child({ state: { left: ctx.state.n } })], ctx.state),
    end: (ctx) => ctx.done(),
  },
});
export const pong = defineFsm({
  name: "pong",
  state: z.object({ left: z.number() }),
  steps: {
    start: (ctx): Outcome => {
      const next = ping.child({ state: { n: ctx.state.left - 1 } });
      // @ts-expect-error the state of pong
      const wrong = ping.child({ state: { left: 1 } });
      return ctx.scheduleChildren("end", [next, wrong], ctx.state);
    },
    end: (ctx) => ctx.done(),
  },
});

// Or by name, without a type.
export const byName = defineFsm({
  name: "byName",
  steps: {
    start: (ctx) => ctx.scheduleChildren("end", [childOf("byName", { state: {} })], ctx.state),
    end: (ctx) => ctx.done(),
  },
});

export const job = defineJob({
  name: "job",
  queue: "mail",
  args: z.object({ to: z.email(), copies: z.number().default(1) }),
  maxAttempts: 5,
  backoff: (attempt, error) => (error.message === "busy" ? 1_000 : 2 ** attempt),
  perform: async (args, ctx) => {
    same<typeof args, { to: string; copies: number }>(true);
    if (args.copies > 5) ctx.cancel("too many");
    return { sent: args.copies, attempt: ctx.attempt };
  },
});
same<ResultOfFsm<typeof job>, { sent: number; attempt: number }>(true);
same<InputOfFsm<typeof job>, { to: string; copies?: number | undefined }>(true);
job.child({ state: { to: "a@b.c" } });
// @ts-expect-error arguments of the wrong shape
job.child({ state: { to: 5 } });

export const quiet = defineJob({ name: "quiet", perform: () => {} });
same<ResultOfFsm<typeof quiet>, null>(true);
export const cancels = defineJob({ name: "cancels", perform: (_args, ctx) => ctx.cancel("no") });

export const checked = defineJob({
  name: "checked",
  result: z.object({ n: z.number() }),
  perform: () => ({ n: 1 }),
});
same<ResultOfFsm<typeof checked>, { n: number }>(true);
defineJob({
  name: "x",
  result: z.object({ n: z.number() }),
  // @ts-expect-error a result of the wrong shape
  perform: () => ({ n: "1" }),
});
// @ts-expect-error a misspelt option
defineJob({ name: "x", attempts: 5, perform: () => {} });
// @ts-expect-error nothing to perform
defineJob({ name: "x" });
