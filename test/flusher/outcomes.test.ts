// What each outcome makes of its row (DESIGN: the table of outcomes), over flush() directly.
import { beforeEach, describe, expect, test } from "@jest/globals";
import { flush } from "#flusher/flush.js";
import { createDatabase } from "../support/database.js";
import {
  awaits,
  CLAIM,
  children,
  done,
  executingRows,
  flushEnv,
  flusherConnection,
  next,
  outcomeOf,
  recorded,
  retry,
  stop,
} from "../support/outcomes.js";
import { insertExecuting, insertRow, insertSignal, readRow } from "../support/rows.js";

const database = await createDatabase();
const connection = await flusherConnection(database);
const env = flushEnv();

beforeEach(() => database.query("TRUNCATE gen_durable, signals, gen_durable_buckets, fsms"));

const run = (outcomes: ReturnType<typeof outcomeOf>[]) => flush(connection, outcomes, env);
const inbox = (id: number) =>
  database.query<{ name: string; payload: unknown; consumed: boolean }>(
    "SELECT name, payload, consumed_at IS NOT NULL AS consumed FROM signals WHERE target_id = $1 ORDER BY id",
    [id],
  );

test("FLU-01: next, retry, done and stop of one batch commit in one transaction, each with its own effect", async () => {
  const [a = 0, b = 0, c = 0, d = 0] = await executingRows(database, 4, { attempt: 2, crashes: 1, reaps: 1 });
  const result = await run([
    outcomeOf(a, next("second", { state: '{"n":1}' }), { attempt: 2 }),
    outcomeOf(b, retry(1_000, '{"n":2}'), { attempt: 2 }),
    outcomeOf(c, done('{"n":3}'), { attempt: 2 }),
    outcomeOf(d, stop("boom"), { attempt: 2 }),
  ]);
  expect(result.committed.map((o) => o.id)).toEqual([a, b, c, d]);
  expect(result.transactions).toBe(1);
  const free = { locked_by: null, lease_expires_at: null, crashes: 0, reaps: 0, started_at: null };
  expect(await readRow(database, a)).toMatchObject({
    ...free,
    status: "runnable",
    step: "second",
    state: { n: 1 },
    attempt: 0,
    visit: 2,
  });
  expect(await readRow(database, b)).toMatchObject({
    ...free,
    status: "runnable",
    step: "start",
    state: { n: 2 },
    attempt: 3,
    visit: 1,
  });
  expect(await readRow(database, c)).toMatchObject({
    ...free,
    status: "done",
    result: { n: 3 },
    attempt: 2,
    visit: 2,
  });
  expect(await readRow(database, d)).toMatchObject({
    ...free,
    status: "failed",
    last_error: "boom",
    attempt: 2,
    visit: 2,
  });
  const xids = await database.query("SELECT DISTINCT xmin::text FROM gen_durable");
  expect(xids).toHaveLength(1);
});

test("RET-01: a retry is due after its delay and keeps awaits, wake reason and rate limit", async () => {
  const id = await insertExecuting(database, CLAIM, { awaits: ["go"], rate_limit: "r", weight: 3 });
  const { pokes } = await run([outcomeOf(id, retry(60_000))]);
  const row = await database.one(
    "SELECT awaits, rate_limit, weight, extract(epoch FROM eligible_at - updated_at)::float8 AS delay FROM gen_durable WHERE id = $1",
    [id],
  );
  expect(row).toEqual({ awaits: ["go"], rate_limit: "r", weight: 3, delay: 60 });
  expect(pokes).toEqual([{ queue: "default", dueInMs: 60_000 }]);
});

test("OUT-02: next clears awaits and takes the limits of its own transition; the key is kept, released or switched", async () => {
  const spec = { awaits: ["go"], rate_limit: "r", weight: 3, concurrency_key: "k:1" };
  const [kept = 0] = await executingRows(database, 1, { ...spec });
  const [released = 0] = await executingRows(database, 1, { ...spec, concurrency_key: "k:2" });
  const [switched = 0] = await executingRows(database, 1, { ...spec, concurrency_key: "k:3" });
  await run([
    outcomeOf(kept, next("b")),
    outcomeOf(released, next("b", { key: null, rateLimit: "s", weight: 2 })),
    outcomeOf(switched, next("b", { key: "other" })),
  ]);
  const limits = { awaits: [], rate_limit: null, weight: 1 };
  expect(await readRow(database, kept)).toMatchObject({ ...limits, concurrency_key: "k:1" });
  expect(await readRow(database, released)).toMatchObject({
    awaits: [],
    rate_limit: "s",
    weight: 2,
    concurrency_key: null,
  });
  expect(await readRow(database, switched)).toMatchObject({ ...limits, concurrency_key: "other" });
});

test("next at an instant is due then, and its queue hears how soon", async () => {
  const [id = 0] = await executingRows(database, 1);
  const atMs = Date.now() + 3_600_000;
  const { pokes } = await run([outcomeOf(id, next("b", { due: { atMs } }))]);
  expect(Number((await readRow(database, id)).eligible_at)).toBe(atMs);
  expect(pokes[0]?.dueInMs).toBeGreaterThan(3_590_000);
});

test("an inline next stays executing under its claim, with a new lease", async () => {
  const id = await insertExecuting(database, CLAIM, {
    leaseInMs: 1_000,
    concurrency_key: "g:1",
    concurrency_shard: 0,
  });
  const result = await run([outcomeOf(id, next("b", { inline: true }))]);
  expect(result.continued).toHaveLength(1);
  expect(result.committed).toEqual([]);
  const row = await readRow(database, id);
  expect(row).toMatchObject({
    status: "executing",
    locked_by: CLAIM,
    visit: 2,
    attempt: 0,
    concurrency_shard: 0,
  });
  expect(Number(row.lease_expires_at) - Date.now()).toBeGreaterThan(50_000);
});

test("a lease that is good is left alone, so that an inline next writes no index", async () => {
  const id = await insertExecuting(database, CLAIM, { leaseInMs: 50_000 });
  const before = await readRow(database, id);
  await run([outcomeOf(id, next("b", { inline: true }))]);
  const { step, lease_expires_at, updated_at } = await readRow(database, id);
  expect({ step, lease_expires_at, updated_at }).toEqual({
    step: "b",
    lease_expires_at: before.lease_expires_at,
    updated_at: before.updated_at,
  });
});

test("what waits for a next step that runs ahead comes with its commit, and costs nobody else a statement", async () => {
  const [plain = 0, mailed = 0, parent = 0] = await executingRows(database, 3);
  const read = await insertSignal(database, mailed, "read", 1);
  const unread = await insertSignal(database, mailed, "unread", 2);
  await insertRow(database, { parent_id: parent, parent_visit: 1, status: "done", result: 7 });
  const inline = next("b", { inline: true });
  const outcomes = [
    outcomeOf(plain, inline),
    outcomeOf(mailed, inline, { awaited: [read], shown: [read] }),
    outcomeOf(parent, inline, { hasChildren: true }),
  ];
  const session = recorded(connection);
  const { inputs } = await flush(session, outcomes, env);
  expect([...inputs.keys()].map(({ id }) => id)).toEqual([mailed, parent]);
  expect(JSON.parse([...inputs.values()][0]?.inbox ?? "")).toEqual([
    { id: unread, name: "unread", payload: 2 },
  ]);
  expect(JSON.parse([...inputs.values()][1]?.children ?? "")).toMatchObject([{ status: "done", result: 7 }]);
  expect(session.sent).toEqual([
    "BEGIN",
    "lock_batch",
    "apply_inline",
    "consume_signals",
    "load_inboxes",
    "load_children",
    "COMMIT",
  ]);
  session.sent.length = 0;
  await flush(session, [outcomeOf(plain, inline, { visit: 2 })], env);
  expect(session.sent).toEqual(["BEGIN", "lock_batch", "apply_outcomes", "COMMIT"]);
});

test("asOf stands in for the database's clock", async () => {
  const [id = 0] = await executingRows(database, 1);
  const asOf = new Date("2031-01-01T00:00:00Z");
  const { deadlineInMs } = await flush(connection, [outcomeOf(id, awaits(["go"], 5_000))], { ...env, asOf });
  expect(deadlineInMs).toBe(5_000);
  expect((await readRow(database, id)).await_deadline).toEqual(new Date("2031-01-01T00:00:05Z"));
});

describe("await", () => {
  test("AWT-01, OUT-05: parks with names, deadline and what it has seen; no owner, no lease, attempt 0", async () => {
    const [id = 0] = await executingRows(database, 1, { attempt: 3 });
    const seen = await insertSignal(database, id, "go");
    const { deadlineInMs } = await run([
      outcomeOf(id, awaits(["go", 'o"dd'], 3_000), { shown: [seen], attempt: 3 }),
    ]);
    expect(await readRow(database, id)).toMatchObject({
      status: "awaiting_signal",
      step: "woken",
      awaits: ["go", 'o"dd'],
      await_seen: [String(seen)],
      attempt: 0,
      visit: 2,
      locked_by: null,
      wake_reason: null,
    });
    expect(deadlineInMs).toBe(3_000);
    expect(await inbox(id)).toHaveLength(1);
  });

  test("SIG-14: a matching signal that the step was not shown wakes it at once, whatever its id", async () => {
    const [id = 0] = await executingRows(database, 1);
    await insertSignal(database, id, "go");
    const shown = await insertSignal(database, id, "go");
    const { deadlineInMs, pokes } = await run([outcomeOf(id, awaits(["go"], 3_000), { shown: [shown] })]);
    expect(await readRow(database, id)).toMatchObject({
      status: "runnable",
      wake_reason: "signal",
      await_deadline: null,
      awaits: ["go"],
    });
    expect(deadlineInMs).toBeNull();
    expect(pokes).toEqual([{ queue: "default", dueInMs: 0 }]);
  });

  test("signals of other names and consumed ones wake nobody", async () => {
    const [id = 0] = await executingRows(database, 1);
    await insertSignal(database, id, "other");
    await database.query("UPDATE signals SET consumed_at = now() WHERE id = $1", [
      await insertSignal(database, id, "go", null, "d"),
    ]);
    await run([outcomeOf(id, awaits(["go"]))]);
    expect(await readRow(database, id)).toMatchObject({ status: "awaiting_signal", await_deadline: null });
  });
});

describe("consume", () => {
  test("SIG-10: next consumes exactly the awaited ids it received; one with a dedup key stays without payload", async () => {
    const [id = 0] = await executingRows(database, 1);
    const first = await insertSignal(database, id, "go", 1);
    const keyed = await insertSignal(database, id, "go", 2, "evt");
    await insertSignal(database, id, "go", 3);
    await insertSignal(database, id, "other", 4);
    await run([outcomeOf(id, next("b"), { awaited: [first, keyed], shown: [first, keyed] })]);
    expect(await inbox(id)).toEqual([
      { name: "go", payload: null, consumed: true },
      { name: "go", payload: 3, consumed: false },
      { name: "other", payload: 4, consumed: false },
    ]);
  });

  test("SIG-11: done empties the inbox, stop and retry and await keep it", async () => {
    const ids = await executingRows(database, 4);
    const [finished = 0, failed = 0, again = 0, parked = 0] = ids;
    for (const id of ids) await insertSignal(database, id, "go", 1);
    const awaited = async (id: number) =>
      (await database.query<{ id: number }>("SELECT id FROM signals WHERE target_id = $1", [id])).map(
        (s) => s.id,
      );
    await run([
      outcomeOf(finished, done()),
      outcomeOf(failed, stop("x"), { awaited: await awaited(failed) }),
      outcomeOf(again, retry(), { awaited: await awaited(again) }),
      outcomeOf(parked, awaits(["go"]), { awaited: await awaited(parked), shown: await awaited(parked) }),
    ]);
    expect((await Promise.all(ids.map(inbox))).map((rows) => rows.length)).toEqual([0, 1, 1, 1]);
  });
});

describe("children", () => {
  test("CHI-04: children are inserted and the parent parks in one transaction, each child in the parent's round", async () => {
    const [id = 0] = await executingRows(database, 1);
    const specs = [
      { state: '{"n":1}', priority: 4 },
      { queue: "kids" },
      { queue: "kids", due: { delayMs: 5_000 } },
    ];
    const { pokes } = await run([outcomeOf(id, children(specs))]);
    expect(await readRow(database, id)).toMatchObject({
      status: "awaiting_children",
      step: "joined",
      children_pending: 3,
      visit: 2,
    });
    const kids = await database.query(
      "SELECT parent_visit, state, priority, queue, status, xmin::text FROM gen_durable WHERE parent_id = $1 ORDER BY id",
      [id],
    );
    expect(kids).toMatchObject([
      { parent_visit: 2, state: { n: 1 }, priority: 4, queue: "default", status: "runnable" },
      { parent_visit: 2, queue: "kids" },
      { parent_visit: 2, queue: "kids" },
    ]);
    const xids = await database.query("SELECT DISTINCT xmin::text FROM gen_durable");
    expect(xids).toHaveLength(1);
    expect(pokes).toEqual(
      expect.arrayContaining([
        { queue: "default", dueInMs: 0 },
        { queue: "kids", dueInMs: 0 },
      ]),
    );
  });

  test("CHI-08: children whose key is taken are not inserted; with none the parent goes on at once", async () => {
    await insertRow(database, { correlation_key: "taken", correlation_scope: ["runnable"] });
    const [one = 0, none = 0] = await executingRows(database, 2);
    await run([
      outcomeOf(
        one,
        children([{ correlationKey: "taken" }, { correlationKey: "new" }, { correlationKey: "new" }]),
      ),
      outcomeOf(none, children([{ correlationKey: "taken" }])),
    ]);
    expect(await readRow(database, one)).toMatchObject({ status: "awaiting_children", children_pending: 1 });
    expect(await readRow(database, none)).toMatchObject({
      status: "runnable",
      step: "joined",
      children_pending: 0,
      wake_reason: "children",
    });
  });

  test("FLU-14: siblings that end in one batch are one update of their parent; the last one wakes it", async () => {
    const parent = await insertRow(database, {
      status: "awaiting_children",
      children_pending: 3,
      visit: 2,
      queue: "p",
    });
    const family = { parent_id: parent, parent_visit: 2 };
    const kin = { parentId: parent, parentVisit: 2 };
    const [a = 0, b = 0, c = 0] = await executingRows(database, 3, family);
    const recording = recorded(connection);
    await flush(recording, [outcomeOf(a, done(), kin), outcomeOf(b, stop("x"), kin)], env);
    expect(recording.sent.filter((name) => name === "join_parents")).toHaveLength(1);
    expect(await readRow(database, parent)).toMatchObject({
      status: "awaiting_children",
      children_pending: 1,
    });
    const { pokes } = await run([outcomeOf(c, done(), kin)]);
    expect(await readRow(database, parent)).toMatchObject({
      status: "runnable",
      children_pending: 0,
      wake_reason: "children",
      visit: 2,
    });
    expect(pokes).toEqual([{ queue: "p", dueInMs: 0 }]);
  });

  test("a child of another round, or of a parent that is gone, counts nothing", async () => {
    const parent = await insertRow(database, { status: "awaiting_children", children_pending: 1, visit: 5 });
    const [old = 0, orphan = 0] = await executingRows(database, 2);
    const result = await run([
      outcomeOf(old, done(), { parentId: parent, parentVisit: 3 }),
      outcomeOf(orphan, done(), { parentId: 999_999_999, parentVisit: 1 }),
    ]);
    expect(result.committed).toHaveLength(2);
    expect(await readRow(database, parent)).toMatchObject({
      status: "awaiting_children",
      children_pending: 1,
    });
  });
});

describe("cancel", () => {
  test("an outcome of a row whose cancel was requested becomes the cancellation", async () => {
    await database.query(
      "INSERT INTO fsms (name, version, queue, initial_step, steps, on_cancel) VALUES ('tidy', 1, 'default', 'start', '{start,cleanUp}', 'cleanUp')",
    );
    const asked = { cancel_requested: true, cancel_reason: "no longer wanted" };
    const [tidy = 0] = await executingRows(database, 1, { fsm: "tidy", ...asked, attempt: 1 });
    const [doneTidy = 0] = await executingRows(database, 1, { fsm: "tidy", ...asked, state: { kept: true } });
    const [plain = 0] = await executingRows(database, 1, asked);
    await run([
      outcomeOf(tidy, next("b", { state: '{"charge":7}', due: { delayMs: 9_000 } }), { attempt: 1 }),
      outcomeOf(doneTidy, done("1")),
      outcomeOf(plain, next("b")),
    ]);
    expect(await readRow(database, tidy)).toMatchObject({
      status: "runnable",
      step: "cleanUp",
      state: { charge: 7 },
      cancel_requested: false,
      cancel_reason: "no longer wanted",
      attempt: 0,
      visit: 2,
    });
    expect(await readRow(database, doneTidy)).toMatchObject({
      status: "runnable",
      step: "cleanUp",
      state: { kept: true },
      result: null,
    });
    expect(await readRow(database, plain)).toMatchObject({
      status: "failed",
      last_error: "cancelled: no longer wanted",
      cancel_requested: false,
    });
  });

  test("a cancelled child that wanted to go on is counted off its parent", async () => {
    const parent = await insertRow(database, { status: "awaiting_children", children_pending: 1, visit: 2 });
    const [id = 0] = await executingRows(database, 1, {
      cancel_requested: true,
      parent_id: parent,
      parent_visit: 2,
    });
    await run([outcomeOf(id, next("b"), { parentId: parent, parentVisit: 2 })]);
    expect(await readRow(database, id)).toMatchObject({ status: "failed", last_error: "cancelled" });
    expect(await readRow(database, parent)).toMatchObject({ status: "runnable", wake_reason: "children" });
  });
});

describe("gate slots", () => {
  const bucket = (shard: number) =>
    database.one("SELECT available, debt FROM gen_durable_buckets WHERE shard = $1", [shard]);

  test("GATE-10: a row that leaves executing gives its slot back; inline keeps it unless the key changes", async () => {
    await database.query(
      "INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available, debt) VALUES ('conc', 'g:1', 0, 5, 0, 0), ('conc', 'g:1', 1, 5, 0, 2)",
    );
    const held = (concurrency_shard: number) => ({ concurrency_key: "g:1", concurrency_shard });
    const [a = 0, b = 0, c = 0, chain = 0] = await executingRows(database, 4, held(0));
    const [d = 0, e = 0, f = 0] = await executingRows(database, 3, held(1));
    const [provisional = 0] = await executingRows(database, 1, held(-1));
    const recording = recorded(connection);
    await flush(
      recording,
      [
        outcomeOf(a, done()),
        outcomeOf(b, next("b")),
        outcomeOf(c, next("b", { inline: true, key: null })),
        outcomeOf(chain, next("b", { inline: true })),
        outcomeOf(d, retry()),
        outcomeOf(e, awaits(["go"])),
        outcomeOf(f, stop("x")),
        outcomeOf(provisional, done()),
      ],
      env,
    );
    expect(await bucket(0)).toEqual({ available: 3, debt: 0 });
    expect(await bucket(1)).toEqual({ available: 1, debt: 0 });
    expect(recording.sent.slice(-2)).toEqual(["credit_slots", "COMMIT"]);
    expect(await readRow(database, c)).toMatchObject({ concurrency_key: null, concurrency_shard: null });
    expect(await readRow(database, chain)).toMatchObject({ concurrency_key: "g:1", concurrency_shard: 0 });
  });

  test("GATE-13: a counter never passes its capacity; the surplus is told", async () => {
    await database.query(
      "INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available) VALUES ('conc', 'g:1', 0, 1, 1)",
    );
    const [id = 0] = await executingRows(database, 1, { concurrency_key: "g:1", concurrency_shard: 0 });
    const { events, committed } = await run([outcomeOf(id, done())]);
    expect(committed).toHaveLength(1);
    expect(events).toEqual([{ name: "slot_surplus", fields: { key: "g:1", shard: 0 } }]);
    expect(await bucket(0)).toEqual({ available: 1, debt: 0 });
  });
});
