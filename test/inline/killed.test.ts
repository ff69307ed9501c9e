// Nodes that are killed, stopped and drained while their chains run.
import { expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { killNodes } from "./killed.js";

test("60 chains with gates of limit 1, nodes killed at random: every gate exact, every chain finished, one step again a kill at most", async () => {
  const result = await killNodes(await createDatabase(), {
    chains: 60,
    steps: 8,
    kills: 3,
    timeoutMs: 60_000,
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
}, 120_000);
