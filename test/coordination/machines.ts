// Machines of these tests, beside the probes. A node loads this file; the tests take the definitions from it.

import { childOf, defineFsm, defineJob } from "gen-durable";
import { z } from "zod";
import { audited, untilLetGo } from "../support/probes/audited.js";

/** Ends at once: done with its number, or failed where it was told to. */
export const leaf = defineFsm({
  name: "leaf",
  state: z.object({ n: z.number().default(0), fail: z.boolean().default(false) }),
  steps: {
    start: (ctx) => (ctx.state.fail ? ctx.stop(`leaf ${ctx.state.n} failed`) : ctx.done(ctx.state.n)),
  },
});

/** Fans out `count` leaves into a queue of their own; the joining step says what it found, and is audited. */
export const fan = defineFsm({
  name: "fan",
  state: z.object({ count: z.number(), queue: z.string().default("kids"), failEvery: z.number().default(0) }),
  steps: {
    start: (ctx) => {
      const { count, queue, failEvery } = ctx.state;
      const kids = Array.from({ length: count }, (_, n) =>
        leaf.child({ state: { n, fail: failEvery > 0 && n % failEvery === 0 }, queue }),
      );
      return ctx.scheduleChildren("join", kids, ctx.state);
    },
    join: (ctx) =>
      audited(ctx, () => {
        const of = (status: string) => ctx.children.filter((child) => child.status === status).length;
        return ctx.done({ done: of("done"), failed: of("failed"), all: ctx.children.length });
      }),
  },
});

/** The audited one does too much for thousands; this one only joins. */
export const swarm = defineFsm({
  name: "swarm",
  state: z.object({ count: z.number(), queues: z.array(z.string()) }),
  steps: {
    start: (ctx) =>
      ctx.scheduleChildren(
        "join",
        Array.from({ length: ctx.state.count }, (_, n) => {
          const queue = ctx.state.queues[n % ctx.state.queues.length] ?? "default";
          return leaf.child({ state: { n }, queue });
        }),
        ctx.state,
      ),
    join: (ctx) => {
      const done = ctx.children.filter((child) => child.status === "done");
      return ctx.done({ done: done.length, sum: done.reduce((sum, child) => sum + Number(child.result), 0) });
    },
  },
});

const count = z.object({ leaves: z.number() });

/** A tree of itself: each level joins on its own and counts its leaves. */
export const tree = defineFsm({
  name: "tree",
  state: z.object({ depth: z.number(), width: z.number() }),
  result: count,
  steps: {
    start: (ctx) => {
      const { depth, width } = ctx.state;
      if (depth === 0) return ctx.done({ leaves: 1 });
      const child = childOf("tree", { state: { depth: depth - 1, width } });
      return ctx.scheduleChildren("join", Array(width).fill(child), ctx.state);
    },
    join: (ctx) =>
      ctx.done({ leaves: ctx.children.reduce((sum, child) => sum + count.parse(child.result).leaves, 0) }),
  },
});

/** Two rounds of fan-out; the second join sees the children of both. */
export const rounds = defineFsm({
  name: "rounds",
  state: z.object({ seen: z.array(z.number()).default([]) }),
  steps: {
    first: (ctx) => ctx.scheduleChildren("second", [leaf.child(), leaf.child()], ctx.state),
    second: (ctx) =>
      ctx.scheduleChildren("last", [leaf.child()], { seen: [...ctx.state.seen, ctx.children.length] }),
    last: (ctx) => ctx.done([...ctx.state.seen, ctx.children.length]),
  },
});

/** Its children have correlation keys; its result is what it waited for. */
export const deduped = defineFsm({
  name: "deduped",
  state: z.object({ keys: z.array(z.string()) }),
  steps: {
    start: (ctx) =>
      ctx.scheduleChildren(
        "join",
        ctx.state.keys.map((correlationKey) => waiter.child({ correlationKey })),
        ctx.state,
      ),
    join: (ctx) => ctx.done({ joined: ctx.children.length, wokenBy: ctx.wokenBy }),
  },
});

/** Parks until `go` and is done with its payload; a payload "fail" makes it fail. */
export const waiter = defineFsm({
  name: "waiter",
  state: z.object({}),
  steps: {
    start: (ctx) => ctx.awaitSignal("go", "woken", ctx.state),
    woken: (ctx) =>
      ctx.awaited[0]?.payload === "fail" ? ctx.stop("told to fail") : ctx.done(ctx.awaited[0]?.payload),
  },
});

/** Fans out `waiter`s and tells each child's status, result and error. */
export const family = defineFsm({
  name: "family",
  state: z.object({ kids: z.number() }),
  steps: {
    start: (ctx) => ctx.scheduleChildren("join", Array(ctx.state.kids).fill(waiter.child()), ctx.state),
    join: (ctx) =>
      audited(ctx, () =>
        ctx.done(ctx.children.map(({ status, result, error }) => ({ status, result, error }))),
      ),
  },
});

/** Fans out one `hold`, whose step runs until the test lets it go, and one `waiter`. */
export const holdFamily = defineFsm({
  name: "holdFamily",
  state: z.object({ name: z.string() }),
  steps: {
    start: (ctx) =>
      ctx.scheduleChildren(
        "join",
        [childOf("hold", { state: { name: ctx.state.name } }), childOf("family", { state: { kids: 2 } })],
        ctx.state,
      ),
    join: (ctx) => ctx.done("joined"),
  },
});

/** Its running step ends when its signal aborts; a clean-up step notes the reason. */
export const tidy = defineFsm({
  name: "tidy",
  state: z.object({ name: z.string().default("never"), parks: z.boolean().default(false) }),
  onCancel: "cleanUp",
  steps: {
    start: (ctx) =>
      audited(ctx, async () => {
        if (ctx.state.parks) return ctx.awaitSignal("go", "start", ctx.state);
        await untilLetGo(ctx.state.name, ctx.signal);
        return ctx.done(ctx.signal.aborted ? "gave in" : "finished");
      }),
    cleanUp: (ctx) => audited(ctx, () => ctx.done({ cleanedUp: ctx.cancelReason }), ctx.cancelReason),
  },
});

/** Retries with a delay until it has been tried `times` times, and says when each try began. */
export const persistent = defineFsm({
  name: "persistent",
  state: z.object({
    times: z.number(),
    delayMs: z.number().default(0),
    tries: z.array(z.number()).default([]),
  }),
  steps: {
    start: (ctx) =>
      audited(ctx, () => {
        const { times, delayMs, tries } = ctx.state;
        if (ctx.attempt >= times) return ctx.next("after", { ...ctx.state, tries: [...tries, ctx.attempt] });
        return ctx.retry({ ...ctx.state, tries: [...tries, ctx.attempt] }, { delayMs });
      }),
    after: (ctx) => ctx.done({ tries: ctx.state.tries, attempt: ctx.attempt }),
  },
});

/** Hands out what cannot be committed, each in its own way; `handle` says what it was told. */
export const misfit = defineFsm({
  name: "misfit",
  state: z.object({ how: z.string() }),
  steps: {
    start: (ctx) =>
      audited(ctx, () => {
        // What the compiler refuses, callers in JavaScript do all the same.
        const loose = ctx as unknown as Record<string, (...given: unknown[]) => never>;
        switch (ctx.state.how) {
          case "no outcome":
            return undefined as never;
          case "a text":
            return "done" as never;
          case "unknown step":
            return loose.next?.("nowhere", ctx.state) as never;
          case "wrong state":
            return loose.next?.("start", { how: 7 }) as never;
          case "no child":
            return loose.scheduleChildren?.("start", [{ fsm: "leaf" }], ctx.state) as never;
          case "unknown child":
            return loose.scheduleChildren?.("start", [childOf("nobody")], ctx.state) as never;
          case "no names":
            return loose.awaitSignal?.([], "start", ctx.state) as never;
          case "no time":
            return loose.awaitSignal?.("go", "start", ctx.state, { timeoutMs: 0 }) as never;
          case "delay of NaN":
            return loose.retry?.(ctx.state, { delayMs: Number.NaN }) as never;
          default:
            return loose.done?.(1n) as never;
        }
      }),
  },
  handle: (error, ctx) => ctx.stop(`${(error as { code?: string }).code ?? "none"}: ${error.message}`),
});

export const backsOff = defineJob({
  name: "backsOff",
  perform: (): void => {
    throw new Error("not yet");
  },
});

export const twenty = defineJob({
  name: "twenty",
  backoff: () => 0,
  perform: (): void => {
    throw new Error("never");
  },
});

/** Awaits `a` and `b` by turns, or `end`; consumes nothing until it ends. */
export const turns = defineFsm({
  name: "turns",
  state: z.object({ heard: z.array(z.string()).default([]) }),
  steps: {
    start: (ctx) => ctx.awaitSignal(["a", "end"], "turn", ctx.state),
    turn: (ctx) => {
      const heard = [...ctx.state.heard, ctx.awaited.at(-1)?.name ?? "nothing"];
      if (heard.at(-1) === "end" || heard.length > 20) return ctx.done(heard);
      return ctx.awaitSignal([heard.at(-1) === "a" ? "b" : "a", "end"], "turn", { heard });
    },
  },
});
