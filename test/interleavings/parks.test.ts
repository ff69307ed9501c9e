// Parks, deliveries, timeouts and cancels: one side is held where it hurts most, and the other does what it does.

import { afterAll, afterEach, beforeAll, expect, test } from "@jest/globals";
import { fireTimeouts } from "#coordinator/deadlines.js";
import { defineFsm } from "#core/definition/fsm.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { untilBlocked } from "../support/locks.js";
import { awaits, CLAIM, done, next, outcomeOf, stop } from "../support/outcomes.js";
import { disarm, holdAt } from "../support/pauses.js";
import { insertExecuting, insertRow, insertSignal, readRow } from "../support/rows.js";
import { counted, Sides, statements } from "./sides.js";

const plain = defineFsm({ name: "plain", steps: { start: (ctx) => ctx.done() } });
const LIVE = ["runnable", "executing", "awaiting_signal", "awaiting_children"] as const;

let database: TestDatabase;
let sides: Sides;

beforeAll(async () => {
  database = await createDatabase();
  sides = new Sides(database);
});
afterEach(async () => {
  disarm();
  await database.query("TRUNCATE gen_durable, signals, fsms CASCADE");
});
afterAll(() => sides.client.close());

test("flush.locked: a delivery that meets a park before its write waits for it, and wakes it", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("flush.locked");
  const flushed = sides.flush(outcomeOf(id, awaits(["go"])));
  await hold.reached;
  const delivered = sides.client.signal(id, "go");
  await untilBlocked(database);
  hold.release();
  expect(counted(await flushed)).toEqual({ committed: 1, stale: 0, deferred: 0 });
  expect(await delivered).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "signal" });
});

test("flush.applied: a delivery that meets a park before its COMMIT waits for it, and wakes it", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("flush.applied");
  const flushed = sides.flush(outcomeOf(id, awaits(["go"])));
  await hold.reached;
  const delivered = sides.client.signal(id, "go");
  await untilBlocked(database);
  hold.release();
  await Promise.all([flushed, delivered]);
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "signal" });
});

test("pick.claimed: a signal that comes between the claim and the load of the inbox is handed to the step or wakes its park", async () => {
  const id = await insertRow(database, { awaits: ["go"] });
  const hold = holdAt("pick.claimed");
  const claimed = sides.claim();
  await hold.reached;
  await sides.client.signal(id, "go");
  hold.release();
  const [row] = await claimed;
  // Nobody said at the claim that there was an inbox: the step does not see it, so its park must.
  const shown = JSON.parse(row?.inbox ?? "[]") as { id: number }[];
  await sides.flush(
    outcomeOf(id, awaits(["go"]), { claim: row?.claim ?? "", shown: shown.map((signal) => signal.id) }),
  );
  const status = shown.length === 0 ? "runnable" : "awaiting_signal";
  expect((await readRow(database, id)).status).toBe(status);
});

test("timeouts.woken: a signal during the timeout's transaction waits, is stored, and finds the instance awake", async () => {
  const id = await insertRow(database, { status: "awaiting_signal", awaits: ["go"], deadlineInMs: -1 });
  const hold = holdAt("timeouts.woken");
  const connection = await sides.connection();
  const fired = fireTimeouts(connection, statements, { transact: (batch) => connection.transaction(batch) });
  await hold.reached;
  const delivered = sides.client.signal(id, "go");
  await untilBlocked(database);
  hold.release();
  expect(await fired).toEqual([{ id, queue: "default" }]);
  expect(await delivered).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "timeout" });
  expect(await database.query("SELECT 1 FROM signals WHERE target_id = $1", [id])).toHaveLength(1);
});

test("a timer that meets a delivery in progress leaves the instance to it", async () => {
  const id = await insertRow(database, { status: "awaiting_signal", awaits: ["go"], deadlineInMs: -1 });
  const session = await database.session();
  await session.query("BEGIN");
  await sides.client.signal(id, "go", null, { tx: session });
  expect(await fireTimeouts(await sides.connection(), statements)).toEqual([]);
  await session.query("COMMIT");
  expect((await readRow(database, id)).wake_reason).toBe("signal");
});

test("control.locked: an outcome that meets a cancel is put off, and becomes the cancellation", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("control.locked");
  const cancelled = sides.client.cancel(id, "enough");
  await hold.reached;
  expect(counted(await sides.flush(outcomeOf(id, done())))).toEqual({ committed: 0, stale: 0, deferred: 1 });
  hold.release();
  expect(await cancelled).toBe("cancelling");
  await sides.flush(outcomeOf(id, done()));
  expect(await readRow(database, id)).toMatchObject({ status: "failed", last_error: "cancelled: enough" });
});

test("flush.applied: a cancel that meets the last outcome waits for it, and says that it came too late", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("flush.applied");
  const flushed = sides.flush(outcomeOf(id, done()));
  await hold.reached;
  const cancelled = sides.client.cancel(id, "enough");
  await untilBlocked(database);
  hold.release();
  await flushed;
  expect(await cancelled).toBe("already_done");
  expect((await readRow(database, id)).status).toBe("done");
});

test("control.locked: a claim passes over a row that is being cancelled, and it is never run", async () => {
  const id = await insertRow(database);
  const hold = holdAt("control.locked");
  const cancelled = sides.client.cancel(id, "enough");
  await hold.reached;
  expect(await sides.claim()).toEqual([]);
  hold.release();
  expect(await cancelled).toBe("cancelled");
  expect(await sides.claim()).toEqual([]);
});

test("pick.claimed: a cancel right behind a claim asks the step, whose outcome is the cancellation", async () => {
  const id = await insertRow(database);
  const hold = holdAt("pick.claimed");
  const claimed = sides.claim();
  await hold.reached;
  expect(await sides.client.cancel(id, "enough")).toBe("cancelling");
  hold.release();
  const [row] = await claimed;
  await sides.flush(outcomeOf(id, next("more"), { claim: row?.claim ?? "" }));
  expect((await readRow(database, id)).status).toBe("failed");
});

test("insert.refused: the occupant that ended meanwhile is no duplicate: the row is inserted", async () => {
  const occupant = await insertExecuting(database, CLAIM, {
    correlation_key: "order:1",
    correlation_scope: LIVE,
  });
  const hold = holdAt("insert.refused");
  const inserted = sides.client.insert(plain, { correlationKey: "order:1" });
  await hold.reached;
  await sides.flush(outcomeOf(occupant, done()));
  hold.release();
  const result = await inserted;
  expect(result.ok).toBe(true);
  expect(result.id).not.toBe(occupant);
});

test("signalOrInsert.missed: the instance that came meanwhile gets the signal, once", async () => {
  const hold = holdAt("signalOrInsert.missed");
  const call = sides.client.signalOrInsert(plain, { correlationKey: "order:2" }, "go", { n: 1 });
  await hold.reached;
  const other = await sides.client.insert(plain, { correlationKey: "order:2" });
  hold.release();
  expect(await call).toEqual({ ok: true, inserted: false, id: other.id });
  expect(await database.query("SELECT target_id FROM signals")).toEqual([{ target_id: other.id }]);
});

test("signalOrInsert.missed: an instance that came and went leaves the key free, and the signal has one of its own", async () => {
  const hold = holdAt("signalOrInsert.missed");
  const call = sides.client.signalOrInsert(plain, { correlationKey: "order:3" }, "go");
  await hold.reached;
  const other = await sides.client.insert(plain, { correlationKey: "order:3" });
  await sides.client.cancel(other.id, "", { force: true });
  hold.release();
  const result = await call;
  expect(result).toMatchObject({ ok: true, inserted: true });
  expect(await database.query("SELECT target_id FROM signals")).toEqual([{ target_id: result.id }]);
});

test("flush.applied: a redelivery during the commit that consumes its signal is still a duplicate", async () => {
  const id = await insertExecuting(database, CLAIM, { awaits: ["go"] });
  const signal = await insertSignal(database, id, "go", 1, "d");
  const hold = holdAt("flush.applied");
  const flushed = sides.flush(outcomeOf(id, next("more"), { awaited: [signal], shown: [signal] }));
  await hold.reached;
  const again = sides.client.signal(id, "go", 1, { dedupKey: "d" });
  await untilBlocked(database);
  hold.release();
  await flushed;
  expect(await again).toEqual({ ok: true });
  const rows = await database.query(
    "SELECT consumed_at IS NULL AS unread FROM signals WHERE target_id = $1",
    [id],
  );
  expect(rows).toEqual([{ unread: false }]);
});

test("flush.applied: a delivery to an instance that ends waits, and is told that nobody is there", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("flush.applied");
  const flushed = sides.flush(outcomeOf(id, stop("over")));
  await hold.reached;
  const delivered = sides.client.signal(id, "go");
  await untilBlocked(database);
  hold.release();
  await flushed;
  expect(await delivered).toEqual({ ok: false, reason: "no_target" });
  expect(await database.query("SELECT 1 FROM signals")).toHaveLength(0);
});
