// Work: one piece of a run's load. What it is comes from the seed and its number; it ends when everything it created has
// ended as it should.

import type { Caller } from "../caller.js";
import type { Random } from "../seed.js";

export interface Work {
  w: number;
  random: Random;
  caller: Caller;
}

export interface WorkKind {
  name: string;
  /** How often it is chosen, against the others. */
  share: number;
  /** About how many instances it has at once, for the bound on the load. */
  size: number;
  run(work: Work): Promise<void>;
}

/** The part of a result that every machine of the harness gives. */
export function isDone(
  answer: { status: string; result?: unknown },
  expected: Record<string, unknown>,
): boolean {
  if (answer.status !== "done" || typeof answer.result !== "object" || answer.result === null) return false;
  const result = answer.result as Record<string, unknown>;
  return Object.entries(expected).every(
    ([key, value]) => JSON.stringify(result[key]) === JSON.stringify(value),
  );
}
