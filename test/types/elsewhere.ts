// Steps may live in files of their own: `StepContext<State, Steps, Signals, Result>` types them.

import type { Outcome, StepContext } from "gen-durable";
import { z } from "zod";

export const state = z.object({ order: z.number(), paid: z.number().default(0) });
export type State = z.output<typeof state>;

export function ship(ctx: StepContext<State, "bill" | "end">): Outcome {
  // @ts-expect-error a step that it did not name
  if (ctx.state.paid > 99) return ctx.next("start", ctx.state);
  // @ts-expect-error a state of the wrong shape
  if (ctx.state.paid > 98) return ctx.next("bill", { order: 1 });
  return ctx.state.paid > 0 ? ctx.next("end", ctx.state) : ctx.next("bill", ctx.state);
}

export async function bill({
  next,
  state: current,
  attempt,
  log,
  signal,
  idempotencyKey,
}: StepContext<State, "end">) {
  log.info({ attempt, idempotencyKey }, "billing");
  log.info("billing %d", current.order);
  signal.throwIfAborted();
  return next("end", { ...current, paid: current.order });
}

export const wrongState = (ctx: StepContext<{ other: string }, "end">) => ctx.next("end", ctx.state);

export const typed = (ctx: StepContext<State, "end", { go: number }, { total: number }>): Outcome =>
  ctx.done({ total: ctx.awaited[0]?.payload ?? 0 });
