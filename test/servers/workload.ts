// Workload: a bit of everything that the engine does, started by one client and audited at the end.

import { expect } from "@jest/globals";
import type { Client } from "#core/client/client.js";
import type { WaitAnswer } from "#core/client/waitAnswer.js";
import { readAudit } from "../support/audit.js";
import type { TestDatabase } from "../support/database.js";

/** What a configuration must have for the limited part. */
export const LIMITS = {
  queues: { default: 20 },
  concurrencyLimits: { gate: { limit: 2, shards: 2 } },
  rateLimits: { rate: { allowed: 1_000, period: "1 second", burst: 1_000 } },
};

export interface Started {
  id: number;
  expected: WaitAnswer;
}

/** Inserts, signals and cancels `count` instances of each kind. Every call must succeed. */
export async function startWorkload(client: Client, count: number): Promise<Started[]> {
  const started: Started[] = [];
  const note = (id: number, expected: WaitAnswer): void => {
    started.push({ id, expected });
  };
  const done = (result: unknown): WaitAnswer => ({ status: "done", result });
  await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const counter = await client.insertByName("counter", {
        state: { target: 5 },
        correlationKey: `count:${n}`,
      });
      note(counter.id, done({ count: 5 }));
      const parent = await client.insertByName("parent", { state: { kids: [{}, { fail: true }, {}] } });
      note(parent.id, done({ statuses: ["done", "failed", "done"] }));
      const awaiter = await client.insertByName("awaiter", { correlationKey: `await:${n}` });
      note(awaiter.id, done({ n }));
      const again = await client.insertByName("awaiter", { correlationKey: `await:${n}` });
      expect(again).toEqual({ ok: false, reason: "duplicate", id: awaiter.id });
      await client.signal(`await:${n}`, "go", { n }, { dedupKey: "once" });
      await client.signal(`await:${n}`, "go", { n: -1 }, { dedupKey: "once" });
      const late = await client.insertByName("awaitTimeout", { state: { timeoutMs: 50 }, delayMs: 50 });
      note(late.id, done("timed out"));
      const gated = await client.insertByName("steps", {
        state: { left: 2 },
        concurrencyKey: "gate:a",
        rateLimit: "rate",
      });
      note(gated.id, done(null));
      const alone = await client.insertByName("steps", { concurrencyKey: `alone${n % 3}` });
      note(alone.id, done(null));
      const cancelled = await client.insertByName("awaiter");
      await client.cancel(cancelled.id, "not wanted");
      note(cancelled.id, { status: "failed", error: "cancelled: not wanted" } as WaitAnswer);
    }),
  );
  return started;
}

/** Waits for all of them and compares; answers how many there were. */
export async function finishWorkload(
  client: Client,
  started: readonly Started[],
  timeoutMs: number,
): Promise<number> {
  const answers = await Promise.all(started.map(({ id }) => client.waitFor(id, { timeoutMs })));
  expect(answers).toEqual(started.map(({ expected }) => expected));
  return answers.length;
}

/** Steps that began more often than once, where no process died: none. */
export async function repeatedSteps(database: TestDatabase): Promise<string[]> {
  const seen = new Map<string, number>();
  for (const { instance, step, note } of await readAudit(database)) {
    const run = `${instance} ${step} ${JSON.stringify(note)}`;
    seen.set(run, (seen.get(run) ?? 0) + 1);
  }
  return [...seen].filter(([run, times]) => times > 1 && !/ step /.test(run)).map(([run]) => run);
}
