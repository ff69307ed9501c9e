// The full size of the storm of signals.

import { test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { runStorm } from "./storm.js";

const database = await createDatabase();

test("SIG-04: 10,000 signals hit 10,000 parks, and each instance wakes exactly once", async () => {
  await runStorm(database, { count: 10_000, timeoutMs: 120_000 });
}, 240_000);
