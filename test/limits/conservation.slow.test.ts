// What goes out of a counter comes back into it (conservation.ts), at length.
import { expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { seededRandom } from "../support/seed.js";
import { conserve } from "./conservation.js";

const database = await createDatabase();

test("20,000 steps of eight pickers, with nodes that die: never more than a limit, and every counter is back at its capacity", async () => {
  const random = seededRandom("conservation");
  const result = await conserve(database, 20_000, () => random.between(0, 1));
  expect({ ...result, steps: 0, contended: 0 }).toEqual({
    steps: 0,
    contended: 0,
    exceeded: [],
    overdrawn: [],
    errors: [],
    unfinished: 0,
    unfull: [],
    deadlocks: [],
  });
  expect(result.steps).toBeGreaterThanOrEqual(20_000);
  // Races are the exception: pickers meet on heads, and skip what others have locked.
  expect(result.contended).toBeLessThan(result.steps / 20);
}, 600_000);
