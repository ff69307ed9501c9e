// A thousand chains on nodes that are killed (killed.ts).
import { expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { killNodes } from "./killed.js";

test("1,000 chains with gates of limit 1, nodes killed at random: every gate exact, every chain finished, one step again a kill at most", async () => {
  const result = await killNodes(await createDatabase(), {
    chains: 1_000,
    steps: 8,
    kills: 12,
    timeoutMs: 400_000,
  });
  expect({ ...result, met: 0 }).toEqual({
    met: 0,
    unfinished: [],
    wrongResults: [],
    rerun: [],
    overlaps: [],
    gateErrors: [],
    notFull: [],
    illegalMoves: [],
  });
  expect(result.met).toBeGreaterThan(3);
}, 560_000);
