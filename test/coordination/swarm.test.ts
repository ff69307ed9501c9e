// Fan-outs over two nodes and two queues: joined once, without a deadlock, siblings of a batch in one update.

import { expect, test } from "@jest/globals";
import { flush } from "#flusher/flush.js";
import { createDatabase } from "../support/database.js";
import { readHistory } from "../support/history.js";
import { CLAIM, done, flushEnv, flusherConnection, outcomeOf } from "../support/outcomes.js";
import { insertExecuting, insertRow, readRow } from "../support/rows.js";
import { runSwarm } from "./swarm.js";

const database = await createDatabase();

test("FLU-14, CHI-17: 5 parents of 200 children each over two nodes and two queues", async () => {
  await runSwarm(database, { parents: 5, children: 200, timeoutMs: 60_000 });
}, 120_000);

test("two hundred siblings of five parents in one batch are five updates of parents", async () => {
  const connection = await flusherConnection(database);
  const parents = await Promise.all(
    Array.from({ length: 5 }, () =>
      insertRow(database, { status: "awaiting_children", visit: 2, children_pending: 40 }),
    ),
  );
  const outcomes = [];
  for (const parent of parents)
    for (let n = 0; n < 40; n++) {
      const id = await insertExecuting(database, CLAIM, { parent_id: parent, parent_visit: 2 });
      outcomes.push(outcomeOf(id, done(), { parentId: parent, parentVisit: 2 }));
    }
  await flush(connection, outcomes, flushEnv());
  for (const parent of parents) {
    expect(await readRow(database, parent)).toMatchObject({ status: "runnable", children_pending: 0 });
    expect(await readHistory(database, parent)).toHaveLength(2);
  }
});
