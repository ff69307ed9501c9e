// Claims, leases, reapers, families and gates: one side is held where it hurts most, and the other does what it does.

import { afterAll, afterEach, beforeAll, expect, test } from "@jest/globals";
import { isRace } from "#coordinator/claimLimited.js";
import { collectBatch } from "#coordinator/collector.js";
import { reconcileGates } from "#coordinator/limiter/sweep.js";
import { wakeOrphanedParents } from "#coordinator/orphans.js";
import { giveBack } from "#flusher/giveBack.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { untilBlocked } from "../support/locks.js";
import { CLAIM, done, flushEnv, flusherConnection, next, outcomeOf, stop } from "../support/outcomes.js";
import { disarm, holdAt } from "../support/pauses.js";
import { insertExecuting, insertRow, readRow } from "../support/rows.js";
import { counted, Sides, statements } from "./sides.js";

let database: TestDatabase;
let sides: Sides;

beforeAll(async () => {
  database = await createDatabase();
  sides = new Sides(database);
});
afterEach(async () => {
  disarm();
  await database.query(
    "TRUNCATE gen_durable, signals, gen_durable_bucket_configs, gen_durable_buckets CASCADE",
  );
});
afterAll(() => sides.client.close());

const gate = (limit: number) =>
  database.query(
    "INSERT INTO gen_durable_bucket_configs (kind, name, capacity) VALUES ('conc', 'gate', $1)",
    [limit],
  );
const counter = () => database.query("SELECT capacity, available, debt FROM gen_durable_buckets");
const lost = (id: number, begun: boolean) => ({ id, claim: CLAIM, seat: id, generation: 1, begun });

test("flush.locked: a reaper goes around a row that is being flushed, and the outcome counts", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("flush.locked");
  const flushed = sides.flush(outcomeOf(id, done()));
  await hold.reached;
  expect((await sides.reap()).count).toBe(0);
  hold.release();
  expect(counted(await flushed).committed).toBe(1);
  expect((await readRow(database, id)).attempt).toBe(0);
});

test("reap.returned: an outcome that meets the reaper is put off, and then stale: the step runs again", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("reap.returned");
  const reaped = sides.reap();
  await hold.reached;
  expect(counted(await sides.flush(outcomeOf(id, done())))).toEqual({ committed: 0, stale: 0, deferred: 1 });
  hold.release();
  expect((await reaped).count).toBe(1);
  expect(counted(await sides.flush(outcomeOf(id, done())))).toEqual({ committed: 0, stale: 1, deferred: 0 });
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", attempt: 1 });
});

test("pick.claimed: a row that is reaped before it was handed out is run by the next claim alone", async () => {
  const id = await insertRow(database);
  const hold = holdAt("pick.claimed");
  const first = sides.claim();
  await hold.reached;
  await sides.reap();
  const [again] = await sides.claim();
  hold.release();
  const [late] = await first;
  expect(late?.claim).not.toBe(again?.claim);
  const outcomeBy = (claim = "") => outcomeOf(id, done(`"${claim}"`), { claim });
  expect(counted(await sides.flush(outcomeBy(late?.claim))).stale).toBe(1);
  expect(counted(await sides.flush(outcomeBy(again?.claim))).committed).toBe(1);
});

test("reap.locked: an extension that meets the reaper confirms nothing, and the claim is lost", async () => {
  const id = await insertExecuting(database, CLAIM, { leaseInMs: -1 });
  const hold = holdAt("reap.locked");
  const reaped = sides.reap();
  await hold.reached;
  const keeper = await sides.connection();
  const held = [[id], [CLAIM]];
  expect(await keeper.run(statements.get("lease/extend_leases"), [...held, 60_000])).toEqual([]);
  expect(await keeper.run(statements.get("lease/find_owned"), held)).toHaveLength(1);
  hold.release();
  await reaped;
  expect(await keeper.run(statements.get("lease/find_owned"), held)).toEqual([]);
});

test("return.locked: a late outcome of a row that is being handed back is put off, and refused", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("return.locked");
  const returned = giveBack(await flusherConnection(database), [lost(id, false)], flushEnv());
  await hold.reached;
  expect(counted(await sides.flush(outcomeOf(id, done()))).deferred).toBe(1);
  hold.release();
  expect((await returned).returned).toHaveLength(1);
  expect(counted(await sides.flush(outcomeOf(id, done()))).stale).toBe(1);
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", attempt: 0, crashes: 0 });
});

test("flush.applied: a hand-back that meets the row's own outcome is put off, and changes nothing", async () => {
  const id = await insertExecuting(database, CLAIM);
  const hold = holdAt("flush.applied");
  const flushed = sides.flush(outcomeOf(id, next("more")));
  await hold.reached;
  const connection = await flusherConnection(database);
  expect((await giveBack(connection, [lost(id, true)], flushEnv())).deferred).toHaveLength(1);
  hold.release();
  await flushed;
  expect((await giveBack(connection, [lost(id, true)], flushEnv())).returned).toHaveLength(1);
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", step: "more", crashes: 0 });
});

test("pick.locked: a second picker passes over the locked head of an exclusive key, and over those behind it", async () => {
  const ids = [
    await insertRow(database, { concurrency_key: "k" }),
    await insertRow(database, { concurrency_key: "k" }),
  ];
  const hold = holdAt("pick.locked");
  const first = sides.pick();
  await hold.reached;
  expect((await sides.pick()).rows).toEqual([]);
  hold.release();
  expect((await first).rows.map((row) => row.id)).toEqual(ids.slice(0, 1));
});

test("pick.admitted: rows of one exclusive key in two queues: both picks meet on the first one", async () => {
  const id = await insertRow(database, { concurrency_key: "k", queue: "default" });
  await insertRow(database, { concurrency_key: "k", queue: "other" });
  const hold = holdAt("pick.admitted");
  const first = sides.pick("default");
  await hold.reached;
  expect((await sides.pick("other")).rows).toEqual([]);
  hold.release();
  expect((await first).rows.map((row) => row.id)).toEqual([id]);
});

test("pick.admitted: a row that came before the first one of its key meanwhile: the index lets one pick through", async () => {
  const id = await insertRow(database, { concurrency_key: "k", queue: "default", priority: 1 });
  const hold = holdAt("pick.admitted");
  const first = sides.pick("default");
  await hold.reached;
  await insertRow(database, { concurrency_key: "k", queue: "other", priority: 0 });
  // One race too many, and a pick gives up until the next one.
  const second = sides.pick("other").catch((error: unknown) => {
    if (isRace(error)) return { rows: [] };
    throw error;
  });
  await untilBlocked(database);
  hold.release();
  expect((await first).rows.map((row) => row.id)).toEqual([id]);
  expect((await second).rows).toEqual([]);
});

test("pick.locked: a signal to a row that a pick has locked waits for the pick, and is in its inbox or its park's way", async () => {
  const id = await insertRow(database, { concurrency_key: "k", awaits: ["go"] });
  const hold = holdAt("pick.locked");
  const picked = sides.pick();
  await hold.reached;
  const delivered = sides.client.signal(id, "go");
  await untilBlocked(database);
  hold.release();
  expect((await picked).rows).toHaveLength(1);
  expect(await delivered).toEqual({ ok: true });
  expect((await readRow(database, id)).status).toBe("executing");
});

test("gates.locked: a pick leaves a key alone whose counter is being reconciled; the count is exact after both", async () => {
  await gate(2);
  await insertRow(database, { concurrency_key: "gate" });
  expect((await sides.pick()).rows).toHaveLength(1);
  await insertRow(database, { concurrency_key: "gate" });
  const hold = holdAt("gates.locked");
  const reconciled = reconcileGates(await sides.connection(), statements);
  await hold.reached;
  expect((await sides.pick()).rows).toHaveLength(0);
  hold.release();
  expect(await reconciled).toMatchObject({ healed: 0 });
  expect((await sides.pick()).rows).toHaveLength(1);
  expect(await counter()).toEqual([{ capacity: 2, available: 0, debt: 0 }]);
});

test("gates.locked: a flush that frees a slot waits for the reconciliation, and its credit is not lost", async () => {
  await gate(1);
  const id = await insertRow(database, { concurrency_key: "gate" });
  const [row] = (await sides.pick()).rows;
  const hold = holdAt("gates.locked");
  const reconciled = reconcileGates(await sides.connection(), statements);
  await hold.reached;
  const flushed = sides.flush(outcomeOf(id, done(), { claim: row?.claim ?? "" }));
  await untilBlocked(database);
  hold.release();
  await Promise.all([reconciled, flushed]);
  expect(await counter()).toEqual([{ capacity: 1, available: 1, debt: 0 }]);
});

test("reap.returned: a slot that the reaper gives back is given back once, whatever the late outcome does", async () => {
  await gate(1);
  const id = await insertRow(database, { concurrency_key: "gate" });
  const [row] = (await sides.pick()).rows;
  const hold = holdAt("reap.returned");
  const reaped = sides.reap();
  await hold.reached;
  const late = outcomeOf(id, done(), { claim: row?.claim ?? "" });
  expect(counted(await sides.flush(late)).deferred).toBe(1);
  hold.release();
  await reaped;
  expect((await sides.pick()).rows).toHaveLength(1);
  expect(counted(await sides.flush(late)).stale).toBe(1);
  expect(await counter()).toEqual([{ capacity: 1, available: 0, debt: 0 }]);
});

test("pick.taken: rows that the reaper takes back before they were handed out give their slots back, once", async () => {
  await gate(5);
  const made = await insertRow(database, { concurrency_key: "gate" });
  const [first] = (await sides.pick()).rows;
  await sides.flush(outcomeOf(made, done(), { claim: first?.claim ?? "" }));
  const id = await insertRow(database, { concurrency_key: "gate" });
  const hold = holdAt("pick.taken");
  const picked = sides.pick("default", true);
  await hold.reached;
  expect(await counter()).toEqual([{ capacity: 5, available: 4, debt: 0 }]);
  await sides.reap();
  hold.release();
  const { rows, plenty } = await picked;
  expect(plenty).toBe("had");
  expect(counted(await sides.flush(outcomeOf(id, done(), { claim: rows[0]?.claim ?? "" }))).stale).toBe(1);
  expect(await counter()).toEqual([{ capacity: 5, available: 5, debt: 0 }]);
});

test("control.locked: the retry of a child while its last sibling ends: the join waits for both", async () => {
  const parent = await insertRow(database, { status: "awaiting_children", visit: 2, children_pending: 1 });
  const family = { parent_id: parent, parent_visit: 2 };
  const failed = await insertRow(database, { status: "failed", ...family });
  const sibling = await insertExecuting(database, CLAIM, family);
  const hold = holdAt("control.locked");
  const retried = sides.client.retry(failed);
  await hold.reached;
  const end = outcomeOf(sibling, done(), { parentId: parent, parentVisit: 2 });
  expect(counted(await sides.flush(end)).deferred).toBe(1);
  hold.release();
  expect(await retried).toEqual({ ok: true });
  expect(counted(await sides.flush(end)).committed).toBe(1);
  expect(await readRow(database, parent)).toMatchObject({ status: "awaiting_children", children_pending: 1 });
});

test("flush.applied: two siblings that end in two flushers: one is put off, and the join fires once, after both", async () => {
  const parent = await insertRow(database, { status: "awaiting_children", visit: 2, children_pending: 2 });
  const family = { parent_id: parent, parent_visit: 2 };
  const ends = [];
  for (let n = 0; n < 2; n++) {
    const id = await insertExecuting(database, CLAIM, family);
    ends.push(outcomeOf(id, stop("over"), { parentId: parent, parentVisit: 2 }));
  }
  const [one, other] = ends;
  if (one === undefined || other === undefined) throw new Error("two children were made");
  const hold = holdAt("flush.applied");
  const flushed = sides.flush(one);
  await hold.reached;
  expect(counted(await sides.flush(other)).deferred).toBe(1);
  hold.release();
  await flushed;
  expect((await readRow(database, parent)).status).toBe("awaiting_children");
  await sides.flush(other);
  expect(await readRow(database, parent)).toMatchObject({ status: "runnable", wake_reason: "children" });
});

test("orphans.found: a child that is retried meanwhile keeps its parent waiting", async () => {
  const parent = await insertRow(database, { status: "awaiting_children", visit: 2, children_pending: 1 });
  const failed = await insertRow(database, { status: "failed", parent_id: parent, parent_visit: 2 });
  const hold = holdAt("orphans.found");
  const swept = wakeOrphanedParents(await sides.connection(), statements);
  await hold.reached;
  expect(await sides.client.retry(failed)).toEqual({ ok: true });
  hold.release();
  expect((await swept).queues).toEqual([]);
  expect((await readRow(database, parent)).status).toBe("awaiting_children");
});

test("collect.found: an instance that is retried meanwhile is not collected", async () => {
  const id = await insertRow(database, { status: "failed", updatedInMs: -10_000 });
  const hold = holdAt("collect.found");
  const collected = collectBatch(await sides.connection(), statements, {
    retentionMs: 1,
    batch: 10,
    from: null,
  });
  await hold.reached;
  expect(await sides.client.retry(id)).toEqual({ ok: true });
  hold.release();
  expect((await collected).rows).toBe(0);
  expect((await readRow(database, id)).status).toBe("runnable");
});
