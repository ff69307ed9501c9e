// Signals that meet parks, by the thousand.

import { test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { runStorm } from "./storm.js";

const database = await createDatabase();

test("SIG-04: 2,000 signals hit 2,000 parks, and each instance wakes exactly once", async () => {
  await runStorm(database, { count: 2_000, timeoutMs: 40_000 });
}, 90_000);
