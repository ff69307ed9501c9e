// Until: how tests wait. On a condition, never on a fixed sleep.

import { setTimeout as sleep } from "node:timers/promises";

export interface UntilOptions {
  timeoutMs?: number;
  /** What is waited for, for the error. */
  describe?: string | (() => string);
  /** Time between two looks. */
  everyMs?: number;
}

/** Asks again and again until the condition's answer is truthy, and returns that answer. @throws when time is up. */
export async function until<T>(
  condition: () => T | Promise<T>,
  options: UntilOptions = {},
): Promise<Exclude<T, false | null | undefined | 0 | "">> {
  const { timeoutMs = 30_000, describe = "the condition", everyMs = 10 } = options;
  const endsAt = performance.now() + timeoutMs;
  for (;;) {
    const answer = await condition();
    // The check above the cast is the type's own.
    if (answer) return answer as Exclude<T, false | null | undefined | 0 | "">;
    if (performance.now() >= endsAt) {
      const what = typeof describe === "string" ? describe : describe();
      throw new Error(`not within ${timeoutMs} ms: ${what} (last answer: ${JSON.stringify(answer)})`);
    }
    await sleep(everyMs);
  }
}
