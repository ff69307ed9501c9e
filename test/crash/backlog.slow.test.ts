// A queue of 100,000 rows: claimed in batches, never loaded whole.

import { readFileSync } from "node:fs";
import { expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { startNode } from "../support/node.js";
import { countStatuses, insertRows } from "../support/rows.js";
import { until } from "../support/until.js";

test("a node drains a backlog of 100,000 rows in bounded memory", async () => {
  const database = await createDatabase();
  await insertRows(database, 100_000);
  const node = await startNode({
    database,
    fsms: ["basic"],
    config: { queues: { default: 200 }, leaseTtlMs: 60_000, heartbeatIntervalMs: 20_000 },
    env: { GEN_DURABLE_TEST_AUDIT_URL: "" },
  });
  await until(async () => (await countStatuses(database)).done === 100_000, {
    timeoutMs: 120_000,
    everyMs: 500,
    describe: "all are done",
  });
  if (process.platform === "linux") {
    const match = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${node.pid}/status`, "utf8"));
    expect(Number(match?.[1]) / 1024).toBeLessThan(700);
  }
  expect(await node.stop()).toMatchObject({ code: 0 });
}, 180_000);
