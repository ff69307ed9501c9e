// Executor threads in a real node with a database: what a step's end means for its row.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { type NodeProcess, startNode } from "../support/node.js";
import { insertRow, insertRows, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

let database: TestDatabase;
let node: NodeProcess;

beforeAll(async () => {
  database = await createDatabase();
  node = await startNode({
    database,
    fsms: ["./test/executor/fixtures/steps.mjs"],
    config: {
      queues: { default: 20 },
      leaseTtlMs: 30_000,
      heartbeatIntervalMs: 5_000,
      drainTimeoutMs: 4_000,
    },
  });
}, 30_000);
afterAll(() => database.drop());

async function ended(id: number) {
  await until(async () => ["done", "failed"].includes((await readRow(database, id)).status));
  return readRow(database, id);
}

test("a step that stands still past its timeout ends in handle; nobody else notices", async () => {
  const wall = await insertRow(database, { fsm: "wall", step: "start", state: {} });
  const neighbours = await insertRows(database, 30, { fsm: "sleeper", step: "start", state: { ms: 10 } });
  expect(await ended(wall)).toMatchObject({
    status: "failed",
    last_error: "handled: ERR_GEN_DURABLE_STEP_TIMEOUT",
    crashes: 0,
    attempt: 0,
  });
  for (const id of neighbours) expect(await ended(id)).toMatchObject({ status: "done", crashes: 0 });
});

test("ERR-02: a thrown value that is no Error is what last_error says", async () => {
  const id = await insertRow(database, { fsm: "thrower", step: "start", state: {} });
  expect(await ended(id)).toMatchObject({ status: "failed", last_error: expect.stringContaining("42") });
});

test("R1: a step that ends because the node shuts down goes back as it was, and the node ends clean", async () => {
  const listening = await insertRow(database, { fsm: "aborting", step: "start", state: {} });
  await until(async () => (await readRow(database, listening)).status === "executing");
  const stoppedAt = performance.now();
  expect(await node.stop()).toMatchObject({ code: 0 });
  expect(performance.now() - stoppedAt).toBeLessThan(4_000);
  expect(await readRow(database, listening)).toMatchObject({
    status: "runnable",
    attempt: 0,
    crashes: 0,
    last_error: null,
  });
});
