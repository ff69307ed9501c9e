// The model: every interleaving of the engine's statements in small scenarios, with READ COMMITTED's own gaps. With every fix
// in, no invariant breaks; with any one taken out, the race that it is for is found, and its shortest trace told.

import { afterAll, expect, test } from "@jest/globals";
import { type Exploration, explore, tell } from "./explore.js";
import { ALL_FIXES, FIXES, type Fix, without } from "./fixes.js";
import { SCENARIOS } from "./scenarios.js";

const lines: string[] = [];
afterAll(() => {
  process.stderr.write(`the model, states looked at:\n${lines.join("\n")}\n`);
});

function note(name: string, { states, moves, ends }: Exploration): void {
  lines.push(
    `${String(states).padStart(8)} states ${String(moves).padStart(8)} moves ${String(ends).padStart(6)} ends  ${name}`,
  );
}

function told({ counterexample }: Exploration): string {
  return counterexample === null
    ? "nothing is violated"
    : `${counterexample.violation}\n${tell(counterexample.trace)}`;
}

const small = SCENARIOS.filter((maker) => maker.isLarge !== true);

test.each(small.map((maker) => [maker.name, maker] as const))("no interleaving breaks: %s", (name, maker) => {
  const found = explore(maker.make(ALL_FIXES));
  note(name, found);
  expect(told(found)).toBe("nothing is violated");
});

const removals = SCENARIOS.flatMap((maker) =>
  Object.entries(maker.breaksWithout).map(([fix, violation]) => [fix as Fix, maker, violation] as const),
);

test.each(
  removals.map(([fix, maker, violation]) => [FIXES[fix], maker.name, fix, maker, violation] as const),
)("without this it breaks: %s (%s)", (_, name, fix, maker, violation) => {
  const found = explore(maker.make(without(fix)));
  note(`${name}, without ${fix}`, found);
  expect(told(found)).toMatch(violation);
  expect(found.counterexample?.trace.length).toBeGreaterThan(1);
});

test("every fix has a scenario that breaks without it", () => {
  const shown = new Set<string>(removals.map(([fix]) => fix));
  expect(Object.keys(FIXES).filter((fix) => !shown.has(fix))).toEqual([]);
});
