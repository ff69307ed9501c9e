// Values: what user code can hand to the engine. Sound ones, which JSON holds, and any with something hostile somewhere inside.

import { randomInt } from "node:crypto";
import fc from "fast-check";
import { HOSTILE, type Hostile } from "./hostile.js";

/** Seed and length of the random tests: GEN_DURABLE_TEST_SEED runs the same again, GEN_DURABLE_TEST_RUNS longer. */
export function runs(name: string, numRuns: number): { seed: number; numRuns: number } {
  const given = process.env.GEN_DURABLE_TEST_SEED;
  const seed = given === undefined ? randomInt(2 ** 31) : Number(given);
  process.stderr.write(`${name}: GEN_DURABLE_TEST_SEED=${seed}\n`);
  const factor = Number(process.env.GEN_DURABLE_TEST_RUNS ?? 1);
  return { seed, numRuns: numRuns * factor };
}

/** Those that a schema of the user's (or ours, of a configuration) would look at without end. */
const ENDLESS = /endless length|huge sparse/;

/** What JSON holds; every text may hold anything that Postgres takes. */
export const sound = (): fc.Arbitrary<unknown> =>
  fc
    .jsonValue({ stringUnit: "grapheme", maxDepth: 5 })
    .filter((value) => !/\\u0000/.test(JSON.stringify(value)));

/** A sound value in which one place holds something hostile, at some depth. */
export const hostile = (): fc.Arbitrary<Hostile> =>
  fc
    .tuple(fc.constantFrom(...HOSTILE), fc.array(fc.constantFrom("list", "object", "wide"), { maxLength: 4 }))
    .map(([{ what, make }, wraps]) => ({
      what: [...wraps, what].join(" > "),
      make: () => wraps.reduce<unknown>((inner, wrap) => wrapped(wrap, inner), make()),
    }));

function wrapped(wrap: string, inner: unknown): unknown {
  if (wrap === "list") return [0, inner];
  return wrap === "object" ? { inner } : { a: [1, "two"], inner, z: null };
}

/** What has an end, for a schema that looks at all of it. */
export const finite = (): fc.Arbitrary<Hostile> => anything().filter(({ what }) => !ENDLESS.test(what));

/** Anything. */
export const anything = (): fc.Arbitrary<Hostile> =>
  fc.oneof(
    { weight: 3, arbitrary: hostile() },
    { weight: 1, arbitrary: sound().map((value) => ({ what: JSON.stringify(value), make: () => value })) },
    {
      weight: 1,
      arbitrary: fc
        .anything({
          withBigInt: true,
          withDate: true,
          withMap: true,
          withSet: true,
          withSparseArray: true,
          withNullPrototype: true,
          withTypedArray: true,
        })
        .map((value) => ({ what: fc.stringify(value), make: () => value })),
    },
  );
