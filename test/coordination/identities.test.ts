// Identities: a parked instance whose correlation key was taken meanwhile wakes all the same, whatever wakes it, and
// costs its neighbours nothing.

import { expect, test } from "@jest/globals";
import { fireTimeouts } from "#coordinator/deadlines.js";
import { wakeOrphanedParents } from "#coordinator/orphans.js";
import { Statements } from "#core/database/statements.js";
import type { Status } from "#core/instance.js";
import { flush } from "#flusher/flush.js";
import { createDatabase } from "../support/database.js";
import { CLAIM, done, flushEnv, flusherConnection, outcomeOf } from "../support/outcomes.js";
import { insertExecuting, insertRow, readRow } from "../support/rows.js";

const database = await createDatabase();
const statements = new Statements("gen_durable");
/** A key that is free while its instance is parked. */
const SCOPE: Status[] = ["runnable", "executing"];
const keyed = (correlation_key: string) => ({ correlation_key, correlation_scope: SCOPE });

const parkUntilNow = (key?: string): Promise<number> =>
  insertRow(database, {
    status: "awaiting_signal",
    awaits: ["go"],
    deadlineInMs: -100,
    ...(key === undefined ? {} : keyed(key)),
  });

test("a timeout fires although the key is taken, and so do those beside it", async () => {
  const connection = await database.connection();
  const [lost, free, plain] = [await parkUntilNow("t1"), await parkUntilNow("t2"), await parkUntilNow()];
  await insertRow(database, keyed("t1"));
  const woken = await fireTimeouts(connection, statements);
  expect(woken.map(({ id }) => id).sort((a, b) => a - b)).toEqual([lost, free, plain]);
  expect(await readRow(database, lost)).toMatchObject({ wake_reason: "timeout", correlation_guard: null });
  expect(await readRow(database, free)).toMatchObject({ wake_reason: "timeout", correlation_guard: "t2" });
});

test("DL1: of two that would enter one key at once one keeps it, and both wake", async () => {
  const connection = await database.connection();
  const ids = [await parkUntilNow("same"), await parkUntilNow("same"), await parkUntilNow()];
  expect(await fireTimeouts(connection, statements)).toHaveLength(3);
  const guards = await database.query(
    "SELECT correlation_guard AS guard FROM gen_durable WHERE id = ANY ($1)",
    [ids],
  );
  expect(guards.filter(({ guard }) => guard === "same")).toHaveLength(1);
});

test("DL1: an open transaction that takes the key holds up nobody's timeout", async () => {
  const connection = await database.connection();
  const x = await database.session();
  await x.query("BEGIN");
  await x.query(
    "INSERT INTO gen_durable (fsm, step, correlation_key, correlation_scope) VALUES ('plain', 'start', 'open', '{runnable}')",
  );
  const [waits, other] = [await parkUntilNow("open"), await parkUntilNow()];
  const woken = await fireTimeouts(connection, statements, {
    transact: (batch) => connection.transaction(batch, { lockTimeoutMs: 50 }),
  });
  expect(woken.map(({ id }) => id).sort((a, b) => a - b)).toEqual([waits, other]);
  await x.query("COMMIT");
  expect(await readRow(database, waits)).toMatchObject({ status: "runnable", correlation_guard: null });
});

test("the last child's end wakes a parent whose key is taken, and the child's own outcome stands", async () => {
  const connection = await flusherConnection(database);
  const parent = await insertRow(database, {
    status: "awaiting_children",
    visit: 2,
    children_pending: 1,
    ...keyed("j1"),
  });
  await insertRow(database, keyed("j1"));
  const child = await insertExecuting(database, CLAIM, { parent_id: parent, parent_visit: 2 });
  const result = await flush(
    connection,
    [outcomeOf(child, done('"mine"'), { parentId: parent, parentVisit: 2 })],
    flushEnv(),
  );
  expect(result.committed).toHaveLength(1);
  expect(await readRow(database, child)).toMatchObject({ status: "done", result: "mine" });
  expect(await readRow(database, parent)).toMatchObject({
    status: "runnable",
    wake_reason: "children",
    correlation_guard: null,
  });
});

test("OR1: parents whose children were deleted wake, one with a taken key among them", async () => {
  const connection = await database.connection();
  const orphan = (key: string): Promise<number> =>
    insertRow(database, {
      status: "awaiting_children",
      visit: 2,
      children_pending: 1,
      queue: key,
      ...keyed(key),
    });
  const ids = [await orphan("o1"), await orphan("o2"), await orphan("o2")];
  await insertRow(database, keyed("o1"));
  const { queues, afterId } = await wakeOrphanedParents(connection, statements);
  expect({ queues: queues.sort(), afterId }).toEqual({ queues: ["o1", "o2"], afterId: 0 });
  for (const id of ids) expect(await readRow(database, id)).toMatchObject({ status: "runnable" });
});
