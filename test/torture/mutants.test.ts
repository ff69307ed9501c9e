// The mutants are texts in what is built: whoever changes one of them is told here, and carries the mutant along.

import { expect, test } from "@jest/globals";
import { outdated } from "../../torture/mutants/mutant.js";
import { MUTANTS } from "../../torture/mutants/mutants.js";

test("every mutant finds what it replaces exactly once", () => {
  expect(MUTANTS.flatMap(outdated)).toEqual([]);
  expect(MUTANTS.length).toBeGreaterThanOrEqual(31);
});
