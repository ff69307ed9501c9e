// Seed: random tests print theirs, and take one from GEN_DURABLE_TEST_SEED.

import { randomInt } from "node:crypto";

export interface Random {
  readonly seed: number;
  /** A number from `from` to below `to`. */
  between(from: number, to: number): number;
}

/** A repeatable source of numbers (mulberry32). Prints its seed, so that a failure can be run again. */
export function seededRandom(name: string): Random {
  const given = process.env.GEN_DURABLE_TEST_SEED;
  const seed = given === undefined ? randomInt(2 ** 31) : Number(given);
  // Not through console: jest would add a page about where this line is.
  process.stderr.write(`${name}: GEN_DURABLE_TEST_SEED=${seed}\n`);
  let state = seed;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return { seed, between: (from, to) => from + next() * (to - from) };
}
