// Deadlines and due rows: what the timers ask the database, and what they change in it.
import { beforeEach, expect, test } from "@jest/globals";
import { fireTimeouts } from "#coordinator/deadlines.js";
import { findDue } from "#coordinator/due.js";
import { Statements } from "#core/database/statements.js";
import { createDatabase } from "../support/database.js";
import { insertRow, readRow } from "../support/rows.js";

const database = await createDatabase();
const connection = await database.connection();
const statements = new Statements("gen_durable");

beforeEach(() => database.query("TRUNCATE gen_durable, signals"));

const parked = (deadlineInMs?: number) =>
  insertRow(database, {
    status: "awaiting_signal",
    awaits: ["go"],
    attempt: 1,
    ...(deadlineInMs === undefined ? {} : { deadlineInMs }),
  });

test("AWT-08: of three parks only the one past its deadline wakes; awaits kept, deadline cleared, attempt untouched", async () => {
  const due = await parked(-1);
  const later = await parked(60_000);
  const never = await parked();
  expect(await fireTimeouts(connection, statements)).toEqual([{ id: due, queue: "default" }]);
  expect(await readRow(database, due)).toMatchObject({
    status: "runnable",
    awaits: ["go"],
    await_deadline: null,
    wake_reason: "timeout",
    attempt: 1,
  });
  for (const id of [later, never])
    expect(await readRow(database, id)).toMatchObject({ status: "awaiting_signal" });
});

test("AWT-07: a delivery in flight wins over its deadline, which does not fire afterwards", async () => {
  const id = await parked(-1);
  const other = await database.session();
  await other.query("BEGIN");
  await other.query(
    "UPDATE gen_durable SET status = 'runnable', wake_reason = 'signal', await_deadline = NULL WHERE id = $1",
    [id],
  );
  expect(await fireTimeouts(connection, statements)).toEqual([]);
  await other.query("COMMIT");
  expect(await fireTimeouts(connection, statements)).toEqual([]);
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "signal" });
});

test("deadlines fire as of the instant that the caller names", async () => {
  const id = await parked(60_000);
  expect(await fireTimeouts(connection, statements, { asOf: new Date(Date.now() + 61_000) })).toEqual([
    { id, queue: "default" },
  ]);
});

test("more timeouts than a batch fire in one call, and two sweeps at once fire each once", async () => {
  await database.query(`INSERT INTO gen_durable (fsm, step, status, awaits, await_deadline)
    SELECT 'plain', 's', 'awaiting_signal', '{go}', now() - interval '1 s' FROM generate_series(1, 1100)`);
  const second = await database.connection();
  const [a, b] = await Promise.all([fireTimeouts(connection, statements), fireTimeouts(second, statements)]);
  expect(new Set([...a, ...b].map(({ id }) => id)).size).toBe(1_100);
  expect(a.length + b.length).toBe(1_100);
});

test("the next due row of each queue, over all priorities, and the next deadline", async () => {
  await insertRow(database, { priority: 0, eligibleInMs: 40_000 });
  await insertRow(database, { priority: 3, eligibleInMs: 20_000 });
  await insertRow(database, { priority: 3, eligibleInMs: -20_000 });
  await insertRow(database, { queue: "other", eligibleInMs: 30_000 });
  await insertRow(database, { queue: "foreign", eligibleInMs: 1_000 });
  await parked(50_000);
  const due = await findDue(connection, statements, ["default", "other", "empty"]);
  expect([...due.queues.keys()].sort()).toEqual(["default", "other"]);
  expect(due.queues.get("default")).toBeGreaterThan(15_000);
  expect(due.queues.get("default")).toBeLessThanOrEqual(20_000);
  expect(due.queues.get("other")).toBeLessThanOrEqual(30_000);
  expect(due.deadlineInMs).toBeGreaterThan(45_000);
});

test("nothing is due in an empty table", async () => {
  expect(await findDue(connection, statements, ["default"])).toEqual({
    queues: new Map(),
    deadlineInMs: null,
  });
});
