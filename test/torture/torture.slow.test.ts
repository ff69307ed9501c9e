// The long runs: five minutes of torture, and every mutant.

import { randomInt } from "node:crypto";
import { expect, test } from "@jest/globals";
import { torture } from "./torture.js";

test("five minutes of torture break no invariant", async () => {
  const seed = process.env.GEN_DURABLE_TEST_SEED ?? String(randomInt(2 ** 31));
  const { status, output } = await torture("main.ts", ["--minutes", "5", "--seed", seed]);
  if (status !== 0) throw new Error(output.slice(-20_000));
  process.stderr.write(output);
  expect(output).toContain("PASSED");
}, 1_200_000);

test("every mutant is noticed", async () => {
  const { status, output } = await torture("mutants/main.ts", []);
  process.stderr.write(output);
  expect(status).toBe(0);
}, 5_400_000);
