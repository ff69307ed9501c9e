// Each benchmark runs, small, and ends with the one JSON object that it promises; the longer ones in smoke.slow.test.ts.
import { test } from "@jest/globals";
import { expectChecks } from "./run.js";

test.each([["insert", ["--rows", "5000", "--rounds", "1", "--sliceMs", "50"], ["insert_many", "poke_cost"]]])(
  "bench %s prints its checks",
  expectChecks,
);
