// Audited: wraps the body of a step, or of `handle`, in its two entries of the audit. The run's name goes into whatever
// the run hands over (`by`), so that the checker can tell from the table alone which run a committed outcome came from.

import type { ChildView, Outcome } from "gen-durable";
import { z } from "zod";
import { recordRun } from "./auditor.js";

/** What every machine's state begins with: the number of the work it belongs to, and the run that wrote it. */
export const common = { w: z.number().default(-1), by: z.string().default("") };

interface AuditedContext {
  readonly id: number;
  readonly fsm: string;
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly state: unknown;
  readonly awaited?: readonly { readonly id: number }[];
  readonly inbox?: readonly { readonly id: number }[];
  readonly wokenBy?: string | null;
  readonly children?: readonly ChildView[];
}

/** The visit that an idempotency key names: `<id>:<step>:<visit>`. */
export function visitOf({ idempotencyKey }: { readonly idempotencyKey: string }): number {
  return Number(/:(\d+)$/.exec(idempotencyKey)?.[1]);
}

/** Runs a body between the two entries of its run; `by` is the run's name. */
export function audited(
  ctx: AuditedContext,
  body: (by: string) => Outcome | Promise<Outcome>,
): Promise<Outcome> {
  return audit(ctx, "step", body);
}

/** The same for `handle`. */
export function auditedHandle(
  ctx: AuditedContext,
  body: (by: string) => Outcome | Promise<Outcome>,
): Promise<Outcome> {
  return audit(ctx, "handle", body);
}

/** The same for a job, whose result carries the name. */
export function auditedJob<T>(
  ctx: Omit<AuditedContext, "state">,
  args: unknown,
  body: (by: string) => T | Promise<T>,
): Promise<T> {
  return audit({ ...pickFacts(ctx), state: args }, "step", body);
}

function pickFacts({ id, fsm, attempt, idempotencyKey }: Omit<AuditedContext, "state">) {
  return { id, fsm, attempt, idempotencyKey };
}

async function audit<T>(ctx: AuditedContext, kind: string, body: (by: string) => T | Promise<T>): Promise<T> {
  const { children } = ctx;
  const { run, end } = await recordRun({
    id: ctx.id,
    fsm: ctx.fsm,
    step: /^\d+:(.*):\d+$/s.exec(ctx.idempotencyKey)?.[1] ?? "",
    visit: visitOf(ctx),
    attempt: ctx.attempt,
    kind,
    state: JSON.stringify(ctx.state),
    awaited: (ctx.awaited ?? []).map(({ id }) => id),
    inbox: (ctx.inbox ?? []).map(({ id }) => id),
    wokenBy: ctx.wokenBy ?? null,
    children:
      children === undefined || children.length === 0
        ? null
        : JSON.stringify(Object.fromEntries(children.map(({ id, status }) => [id, status]))),
  });
  try {
    return await body(run);
  } finally {
    await end();
  }
}
