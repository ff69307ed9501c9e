// The model's large scenarios: everybody at once. The small ones are in model.test.ts.

import { expect, test } from "@jest/globals";
import { explore, tell } from "./explore.js";
import { ALL_FIXES } from "./fixes.js";
import { SCENARIOS } from "./scenarios.js";

const large = SCENARIOS.filter((maker) => maker.isLarge === true);

test.each(large.map((maker) => [maker.name, maker] as const))(
  "no interleaving breaks: %s",
  (name, maker) => {
    const { states, moves, ends, counterexample } = explore(maker.make(ALL_FIXES));
    process.stderr.write(`${states} states, ${moves} moves, ${ends} ends: ${name}\n`);
    expect(
      counterexample === null ? null : `${counterexample.violation}\n${tell(counterexample.trace)}`,
    ).toBeNull();
  },
  300_000,
);
