// Declared signals and results type `awaitSignal`, `awaited`, `inbox` and `done`.

import { defineFsm, type ResultOfFsm, type SignalsOfFsm } from "gen-durable";
import { z } from "zod";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_equal: Equal<A, B>): void {}

export const approval = defineFsm({
  name: "approval",
  result: z.object({ approved: z.boolean() }),
  signals: { approve: z.object({ by: z.string(), level: z.number().default(1) }), reject: z.string() },
  steps: {
    start: (ctx) => ctx.awaitSignal(["approve", "reject"], "decide", ctx.state, { timeoutMs: 5 }),
    decide: (ctx) => {
      for (const signal of ctx.awaited) {
        if (signal.name === "approve") same<typeof signal.payload, { by: string; level: number }>(true);
        else same<typeof signal.payload, string>(true);
      }
      for (const { id, name } of ctx.inbox) {
        same<typeof id, number>(true);
        same<typeof name, "approve" | "reject">(true);
      }
      return ctx.done({ approved: ctx.awaited[0]?.name === "approve" });
    },
    // @ts-expect-error a signal that is not declared
    misspelt: (ctx) => ctx.awaitSignal("aprove", "decide", ctx.state),
    // @ts-expect-error one of several is not declared
    oneOf: (ctx) => ctx.awaitSignal(["approve", "x"], "decide", ctx.state),
    // @ts-expect-error a result of the wrong shape
    wrong: (ctx) => ctx.done({ approved: "yes" }),
    // @ts-expect-error a result that is missing
    missing: (ctx) => ctx.done(),
  },
});

same<ResultOfFsm<typeof approval>, { approved: boolean }>(true);
same<SignalsOfFsm<typeof approval>["approve"], { by: string; level?: number | undefined }>(true);

export const loose = defineFsm({
  name: "loose",
  steps: {
    start: (ctx) => ctx.awaitSignal("anything", "end", ctx.state),
    end: (ctx) => {
      const [first] = ctx.awaited;
      same<
        typeof first,
        { readonly id: number; readonly name: string; readonly payload: unknown } | undefined
      >(true);
      return ctx.done(first?.payload);
    },
  },
});
same<ResultOfFsm<typeof loose>, unknown>(true);
