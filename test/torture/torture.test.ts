// A short torture with every kind of work and of fault: nothing is lost, and every invariant was put to the test.

import { randomInt } from "node:crypto";
import { expect, test } from "@jest/globals";
import { torture } from "./torture.js";

test("half a minute of torture breaks no invariant", async () => {
  const seed = process.env.GEN_DURABLE_TEST_SEED ?? String(randomInt(2 ** 31));
  const { status, output } = await torture("main.ts", ["--minutes", "0.5", "--seed", seed]);
  // What it printed says what is broken, and how to see it again.
  if (status !== 0) throw new Error(output.slice(-20_000));
  expect(output).toContain("PASSED");
}, 600_000);
