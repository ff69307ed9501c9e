// The full size of the fan-out test.

import { test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { runSwarm } from "./swarm.js";

const database = await createDatabase();

test("5 parents of 1,000 children each over two nodes and two queues", async () => {
  await runSwarm(database, { parents: 5, children: 1_000, timeoutMs: 120_000 });
}, 240_000);
