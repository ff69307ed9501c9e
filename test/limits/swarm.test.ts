// No two steps of an exclusive key overlap, whoever picks (swarm.ts). A small run; the long one is swarm.slow.test.ts.
import { expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { swarmKeys } from "./swarm.js";

const KEYS = 60;

const database = await createDatabase();

test("K1-05, K1-10: five steps under each of many keys, by four pickers of two nodes: none overlap, and few picks are aborted", async () => {
  const { steps, overlaps, repeated, deadlocks, picks, contended } = await swarmKeys(database, KEYS, 70_000);
  expect({ steps, overlaps, repeated, deadlocks }).toEqual({
    steps: 5 * KEYS,
    overlaps: [],
    repeated: [],
    deadlocks: [],
  });
  expect(picks).toBeGreaterThan(0);
  // Some seventy picks: one in twenty is measured by the long run, over thousands.
  expect(contended).toBeLessThan(Math.max(picks / 10, 5));
}, 70_000);
