// Probes of one step: jobs.

import { defineJob } from "gen-durable";
import { z } from "zod";

export const ok = defineJob({ name: "ok", perform: () => undefined });

export const result = defineJob({
  name: "result",
  args: z.object({ n: z.number() }),
  perform: (args, ctx) => ({ doubled: args.n * 2, attempt: ctx.attempt }),
});

/** Fails at attempt 0. */
export const flaky = defineJob({
  name: "flaky",
  backoff: () => 0,
  perform: (_args, ctx) => {
    if (ctx.attempt === 0) throw new Error("flaky");
    return { attempt: ctx.attempt };
  },
});

export const giveUp = defineJob({
  name: "giveUp",
  maxAttempts: 3,
  backoff: () => 0,
  perform: () => {
    throw new Error("always");
  },
});

export const cancels = defineJob({ name: "cancels", perform: (_args, ctx) => ctx.cancel("nope") });
