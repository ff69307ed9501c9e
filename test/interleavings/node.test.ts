// Real nodes, held or killed exactly between a commit and what follows it.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { createAudit } from "../support/audit.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { FAR_POLLS, startNode } from "../support/node.js";
import { NodePauses } from "../support/pauses.js";
import { insertRow, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

let database: TestDatabase;
const pauses = new NodePauses();

beforeAll(async () => {
  database = await createDatabase();
  await createAudit(database);
});
afterAll(() => pauses.remove());

const untilDone = (id: number) =>
  until(async () => (await readRow(database, id)).status === "done", { describe: `${id} is done` });
/** Its first look finds what is there; no poll comes while it is held. */
const start = () =>
  startNode({ database, fsms: ["basic"], config: FAR_POLLS, workers: 1, env: pauses.environment });

test("flush.committed: a node killed after its COMMIT and before its acknowledgement has committed, once", async () => {
  pauses.hold("flush.committed");
  const id = await insertRow(database, { fsm: "counter", step: "count", state: { target: 3, n: 0 } });
  const node = await start();
  await pauses.reached("flush.committed");
  const before = await readRow(database, id);
  expect(before).toMatchObject({ visit: 2, state: { n: 1 }, locked_by: null });
  await node.kill();
  pauses.release("flush.committed");
  const other = await start();
  await untilDone(id);
  const after = await readRow(database, id);
  expect(after).toMatchObject({ crashes: 0, attempt: 0, state: { n: 3 } });
  await other.kill();
});

test("flush.applied: a node killed before its COMMIT has committed nothing, and the step runs again", async () => {
  pauses.hold("flush.applied");
  const id = await insertRow(database, { fsm: "counter", step: "count", state: { target: 3, n: 0 } });
  const node = await start();
  await pauses.reached("flush.applied");
  await node.kill();
  pauses.release("flush.applied");
  expect(await readRow(database, id)).toMatchObject({ visit: 1, state: { n: 0 } });
  const other = await start();
  await untilDone(id);
  expect(await readRow(database, id)).toMatchObject({ state: { n: 3 } });
  await other.kill();
});

test("flush.applied: a connection that is terminated before the COMMIT loses nothing and doubles nothing", async () => {
  pauses.hold("flush.applied");
  const id = await insertRow(database, { fsm: "counter", step: "count", state: { target: 3, n: 0 } });
  const node = await start();
  await pauses.reached("flush.applied");
  await database.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gen-durable flusher' AND datname = current_database()",
  );
  pauses.release("flush.applied");
  await untilDone(id);
  expect(await readRow(database, id)).toMatchObject({ crashes: 0, attempt: 0, state: { n: 3 } });
  expect((await node.stop()).code).toBe(0);
});
