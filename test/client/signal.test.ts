// Signals by a client: whom they reach, whom they wake, and every race of a delivery with a park.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { z } from "zod";
import { type Client, createClient } from "#core/client/client.js";
import { defineFsm } from "#core/definition/fsm.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { untilBlocked } from "../support/locks.js";
import { insertRow, insertSignal, readRow } from "../support/rows.js";
import { logStatements, markStatements, statementsSince } from "../support/statements.js";

const typed = defineFsm({
  name: "typed",
  state: z.object({ n: z.number().default(0) }),
  signals: { paid: z.object({ amount: z.number() }), note: z.string() },
  steps: { start: (ctx) => ctx.awaitSignal("paid", "end", ctx.state), end: (ctx) => ctx.done() },
});

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  await logStatements(database);
  client = createClient({ url: database.url, poke: "none" });
});
afterAll(async () => {
  await client.close();
});

const park = (awaits: string[], spec = {}): Promise<number> =>
  insertRow(database, { status: "awaiting_signal", awaits, deadlineInMs: 60_000, visit: 2, ...spec });

const inboxOf = (id: number) =>
  database.query(
    "SELECT name, payload, dedup_key, consumed_at FROM signals WHERE target_id = $1 ORDER BY id",
    [id],
  );

test("SIG-01: a matching signal wakes the parked instance and keeps its awaits", async () => {
  const id = await park(["go", "stop"]);
  expect(await client.signal(id, "go", { v: 1 })).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({
    status: "runnable",
    wake_reason: "signal",
    awaits: ["go", "stop"],
    await_deadline: null,
    visit: 2,
  });
  expect(await inboxOf(id)).toEqual([{ name: "go", payload: { v: 1 }, dedup_key: null, consumed_at: null }]);
});

test("SIG-02: a name outside the set stays in the inbox and wakes nobody", async () => {
  const id = await park(["go"]);
  expect(await client.signal(id, "other")).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({ status: "awaiting_signal", wake_reason: null });
  expect(await inboxOf(id)).toEqual([{ name: "other", payload: null, dedup_key: null, consumed_at: null }]);
});

test("a signal by correlation key reaches whoever occupies the key now", async () => {
  const old = await insertRow(database, {
    status: "done",
    correlation_key: "order:9",
    correlation_scope: ["runnable", "executing"],
  });
  const now = await insertRow(database, {
    status: "executing",
    correlation_key: "order:9",
    correlation_scope: ["runnable", "executing"],
  });
  expect(await client.signal("order:9", "go")).toEqual({ ok: true });
  expect(await inboxOf(old)).toHaveLength(0);
  expect(await inboxOf(now)).toHaveLength(1);
});

test("G2, SIG-07: without a live target nothing is stored", async () => {
  const done = await insertRow(database, { status: "done" });
  const failed = await insertRow(database, {
    status: "failed",
    correlation_key: "dead",
    correlation_scope: ["failed"],
  });
  const before = await database.one("SELECT count(*) AS n FROM signals");
  for (const target of [done, failed, 999_999_999, "nobody", "dead"])
    expect(await client.signal(target, "go", { v: 1 })).toEqual({ ok: false, reason: "no_target" });
  expect(await database.one("SELECT count(*) AS n FROM signals")).toEqual(before);
});

test("G3, SIG-08: a redelivery with the same dedup key is one row, and wakes nobody again", async () => {
  const id = await insertRow(database, { status: "executing" });
  for (const dedupKey of ["k1", "k1", undefined, undefined])
    expect(await client.signal(id, "go", 1, dedupKey === undefined ? {} : { dedupKey })).toEqual({
      ok: true,
    });
  expect(await inboxOf(id)).toHaveLength(3);
  // The signal was consumed; the instance parks on the same name again.
  await database.query("UPDATE signals SET consumed_at = now(), payload = NULL WHERE target_id = $1", [id]);
  await database.query("UPDATE gen_durable SET status = 'awaiting_signal', awaits = '{go}' WHERE id = $1", [
    id,
  ]);
  expect(await client.signal(id, "go", 1, { dedupKey: "k1" })).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({ status: "awaiting_signal" });
  expect(await client.signal(id, "go", 1, { dedupKey: "k2" })).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "signal" });
});

test("a signal that the park was not shown wakes, whatever the park has seen", async () => {
  const id = await insertRow(database, { status: "executing" });
  const seen = await insertSignal(database, id, "go");
  await database.query(
    "UPDATE gen_durable SET status = 'awaiting_signal', awaits = '{go}', await_seen = ARRAY[$2]::bigint[] WHERE id = $1",
    [id, seen],
  );
  expect(await readRow(database, id)).toMatchObject({ status: "awaiting_signal" });
  await client.signal(id, "go");
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "signal" });
});

test("G1, SIG-05: a delivery that meets a park waits for it and then sees the parked row", async () => {
  const id = await insertRow(database, { status: "executing", locked_by: "n/1" });
  const x = await database.session();
  await x.query("BEGIN");
  await x.query(
    "UPDATE gen_durable SET status = 'awaiting_signal', awaits = '{go}', locked_by = NULL WHERE id = $1",
    [id],
  );
  const pending = client.signal(id, "go");
  await untilBlocked(database);
  await x.query("COMMIT");
  expect(await pending).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "signal" });
  expect(await inboxOf(id)).toHaveLength(1);
});

test("G1: a delivery by key that meets a park twice over sees the newest row", async () => {
  const id = await insertRow(database, {
    status: "executing",
    correlation_key: "twice",
    correlation_scope: ["runnable", "executing", "awaiting_signal"],
  });
  const x = await database.session();
  await x.query("BEGIN");
  await x.query("UPDATE gen_durable SET status = 'awaiting_signal', awaits = '{stop}' WHERE id = $1", [id]);
  const first = client.signal("twice", "go");
  await untilBlocked(database);
  await x.query("UPDATE gen_durable SET awaits = '{go}', visit = visit + 1 WHERE id = $1", [id]);
  const second = client.signal(id, "go");
  await untilBlocked(database, 2);
  await x.query("COMMIT");
  expect(await Promise.all([first, second])).toEqual([{ ok: true }, { ok: true }]);
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "signal" });
  expect(await inboxOf(id)).toHaveLength(2);
});

test("G2: a delivery that meets a completion finds no target, by id and by key", async () => {
  for (const byKey of [false, true]) {
    const key = `ends:${byKey}`;
    const id = await insertRow(database, {
      status: "executing",
      correlation_key: key,
      correlation_scope: ["runnable", "executing"],
    });
    const x = await database.session();
    await x.query("BEGIN");
    await x.query("UPDATE gen_durable SET status = 'done' WHERE id = $1", [id]);
    const pending = client.signal(byKey ? key : id, "go");
    await untilBlocked(database);
    await x.query("COMMIT");
    expect(await pending).toEqual({ ok: false, reason: "no_target" });
    expect(await inboxOf(id)).toHaveLength(0);
  }
});

test("G2: a delivery by key that meets the key's move to another row does not reach the old one", async () => {
  const scope = { correlation_key: "moves", correlation_scope: ["runnable", "executing"] as const };
  const id = await insertRow(database, { status: "executing", ...scope, correlation_scope: ["executing"] });
  const x = await database.session();
  await x.query("BEGIN");
  await x.query("UPDATE gen_durable SET status = 'awaiting_signal' WHERE id = $1", [id]);
  const pending = client.signal("moves", "go");
  await untilBlocked(database);
  await x.query("COMMIT");
  expect(await pending).toEqual({ ok: false, reason: "no_target" });
  expect(await inboxOf(id)).toHaveLength(0);
});

test("the other order: a park that meets an uncommitted delivery waits for it, as the flush's lock does", async () => {
  const id = await insertRow(database, { status: "executing", locked_by: "n/1" });
  const x = await database.session();
  await x.query("BEGIN");
  await client.signal(id, "go", undefined, { tx: x });
  const flusher = await database.session();
  const skipped = await flusher.query(
    "SELECT id FROM gen_durable WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED",
    [id],
  );
  expect(skipped.rows).toHaveLength(0);
  await x.query("COMMIT");
  expect(await inboxOf(id)).toHaveLength(1);
});

test("a delivery in the caller's transaction is undone with it", async () => {
  const id = await park(["go"]);
  const x = await database.session();
  await x.query("BEGIN");
  expect(await client.signal(id, "go", null, { tx: x })).toEqual({ ok: true });
  await x.query("ROLLBACK");
  expect(await readRow(database, id)).toMatchObject({ status: "awaiting_signal" });
  expect(await inboxOf(id)).toHaveLength(0);
});

test("signalMany is one statement, answers in order, and wakes everybody once", async () => {
  const ids = await Promise.all(Array.from({ length: 50 }, () => park(["go"])));
  const dead = await insertRow(database, { status: "done" });
  const mark = markStatements(database);
  const results = await client.signalMany([
    ...ids.map((target, n) => ({ target, name: "go", payload: { n } })),
    { target: dead, name: "go" },
    { target: ids[0] ?? 0, name: "other", dedupKey: "d" },
    { target: ids[0] ?? 0, name: "other", dedupKey: "d" },
  ]);
  expect(statementsSince(database, mark)).toHaveLength(1);
  expect(results.map((result) => result.ok)).toEqual([...ids.map(() => true), false, true, true]);
  const rows = await database.query(
    "SELECT status, wake_reason, s.payload FROM gen_durable g JOIN signals s ON s.target_id = g.id AND s.name = 'go' WHERE g.id = ANY ($1) ORDER BY g.id",
    [ids],
  );
  expect(rows).toHaveLength(50);
  for (const row of rows) expect(row).toMatchObject({ status: "runnable", wake_reason: "signal" });
  expect(await inboxOf(ids[0] ?? 0)).toHaveLength(2);
  expect(await client.signalMany([])).toEqual([]);
});

test("SIG-04: deliveries and parks of the same rows race, and nobody sleeps on a signal it has not seen", async () => {
  const ids = await database.query<{ id: number }>(
    "INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at) SELECT 'plain', 'start', 'executing', 'n/1', now() + interval '1 minute' FROM generate_series(1, 400) RETURNING id",
  );
  const all = ids.map((row) => row.id);
  // The park as the flush does it: lock without waiting, then update with the recheck in the same transaction.
  const parkAll = async (): Promise<void> => {
    const x = await database.session();
    let left = all;
    while (left.length > 0) {
      await x.query("BEGIN");
      const locked = await x.query<{ id: number }>(
        "SELECT id FROM gen_durable WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED",
        [left.slice(0, 40)],
      );
      const got = locked.rows.map((row) => row.id);
      await x.query(
        `UPDATE gen_durable g SET awaits = '{go}', status = CASE WHEN EXISTS (
           SELECT FROM signals s WHERE s.target_id = g.id AND s.name = 'go') THEN 'runnable' ELSE 'awaiting_signal' END::durable_status
         WHERE id = ANY ($1)`,
        [got],
      );
      await x.query("COMMIT");
      const parked = new Set(got);
      left = left.filter((id) => !parked.has(id));
    }
  };
  const signalAll = async (): Promise<void> => {
    const targets = all.toReversed();
    for (let start = 0; start < targets.length; start += 20)
      await client.signalMany(targets.slice(start, start + 20).map((target) => ({ target, name: "go" })));
  };
  await Promise.all([parkAll(), signalAll()]);
  const counts = await database.query(
    "SELECT status, count(*) AS n FROM gen_durable WHERE id = ANY ($1) GROUP BY status",
    [all],
  );
  expect(counts).toEqual([{ status: "runnable", n: 400 }]);
});

test("a woken row whose correlation key was taken while it was parked gives up its identity and wakes", async () => {
  const id = await park(["go"], { correlation_key: "taken", correlation_scope: ["runnable", "executing"] });
  await insertRow(database, { correlation_key: "taken", correlation_scope: ["runnable", "executing"] });
  expect(await client.signal(id, "go")).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", correlation_guard: null });
});

test("two parked rows of one correlation key, woken by one call: the first takes the key, the other its leave", async () => {
  const spec = { correlation_key: "both", correlation_scope: ["runnable", "executing"] as const };
  const ids = [await park(["go"], spec), await park(["go"], spec), await park(["go"], spec)];
  const answers = await client.signalMany(ids.toReversed().map((target) => ({ target, name: "go" })));
  expect(answers).toEqual([{ ok: true }, { ok: true }, { ok: true }]);
  const rows = await Promise.all(ids.map((id) => readRow(database, id)));
  expect(rows.map((row) => row.status)).toEqual(["runnable", "runnable", "runnable"]);
  expect(rows.map((row) => row.correlation_guard)).toEqual(["both", null, null]);
});

test("signalOrInsert creates the instance with the signal in its inbox, or signals the one that lives", async () => {
  const options = { correlationKey: "hook:1", state: { n: 1 } };
  const first = await client.signalOrInsert(typed, options, "paid", { amount: 5 }, { dedupKey: "evt-1" });
  expect(first).toEqual({ ok: true, inserted: true, id: expect.any(Number) });
  const again = await client.signalOrInsert(typed, options, "paid", { amount: 5 }, { dedupKey: "evt-1" });
  expect(again).toEqual({ ok: true, inserted: false, id: first.id });
  const other = await client.signalOrInsert(typed, options, "note", "hello");
  expect(other).toMatchObject({ inserted: false, id: first.id });
  expect((await inboxOf(first.id)).map((row) => row.name)).toEqual(["paid", "note"]);
  expect(await readRow(database, first.id)).toMatchObject({ status: "runnable", state: { n: 1 } });
});

test("signalOrInsert: twenty at once make one instance with twenty signals", async () => {
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      client.signalOrInsert(typed, { correlationKey: "hook:2" }, "note", `n${n}`, { dedupKey: `n${n}` }),
    ),
  );
  const ids = new Set(results.map((result) => result.id));
  expect(ids.size).toBe(1);
  expect(results.filter((result) => result.ok && result.inserted)).toHaveLength(1);
  expect(await inboxOf([...ids][0] ?? 0)).toHaveLength(20);
});

test("signalOrInsert: an occupant that has ended and keeps its key is no target, and nothing is stored", async () => {
  const id = await insertRow(database, {
    status: "done",
    correlation_key: "hook:3",
    correlation_scope: ["runnable", "executing", "done"],
  });
  expect(await client.signalOrInsert(typed, { correlationKey: "hook:3" }, "note", "x")).toEqual({
    ok: false,
    reason: "no_target",
    id,
  });
  expect(await inboxOf(id)).toHaveLength(0);
});

test("signalOrInsert in the caller's transaction commits with it", async () => {
  const x = await database.session();
  await x.query("BEGIN");
  const result = await client.signalOrInsert(typed, { correlationKey: "hook:4", tx: x }, "note", "x");
  expect(result).toMatchObject({ ok: true, inserted: true });
  await x.query("ROLLBACK");
  expect(await client.signal("hook:4", "note")).toEqual({ ok: false, reason: "no_target" });
});

test("what a caller gets wrong is refused with code and path, and nothing is stored", async () => {
  const id = await park(["go"]);
  // Callers in JavaScript can pass anything.
  const signal = client.signal.bind(client) as (...given: unknown[]) => Promise<unknown>;
  const many = client.signalMany.bind(client) as (...given: unknown[]) => Promise<unknown>;
  const either = client.signalOrInsert.bind(client) as (...given: unknown[]) => Promise<unknown>;
  const refused: [Promise<unknown>, string, string][] = [
    [signal(id, ""), "INVALID_NAME", "name"],
    [signal(id, "x".repeat(513)), "INVALID_NAME", "name"],
    [signal(id), "INVALID_NAME", "name"],
    [signal("", "go"), "INVALID_NAME", "target"],
    [signal(1.5, "go"), "INVALID_TARGET", "target"],
    [signal(undefined, "go"), "INVALID_TARGET", "target"],
    [signal(id, "go", { at: new Date() }), "UNSTORABLE", "payload.at"],
    [signal(id, "go", 1n), "UNSTORABLE", "payload"],
    [signal(id, "go", "nul\0"), "UNSTORABLE", "payload"],
    [signal(id, "go", "x".repeat(5_000_000)), "PAYLOAD_TOO_LARGE", "payload"],
    [signal(id, "go", null, { dedupKey: "" }), "INVALID_NAME", "dedupKey"],
    [signal(id, "go", null, { dedup: "x" }), "INVALID_OPTION", "dedup"],
    [signal(id, "go", null, { fsm: {} }), "UNKNOWN_FSM", "fsm"],
    [signal(id, "pay", null, { fsm: typed }), "UNKNOWN_SIGNAL", "name"],
    [signal(id, "paid", { amount: "5" }, { fsm: typed }), "INVALID_PAYLOAD", "payload.amount"],
    [many([{ target: id, name: "go" }, { target: id }]), "INVALID_NAME", "signals[1].name"],
    [many([{ target: id, name: "go" }, 7]), "INVALID_OPTION", "signals[1]"],
    [many([null]), "INVALID_OPTION", "signals[0]"],
    [either(typed, {}, "note", "x"), "INVALID_OPTION", "correlationKey"],
    [
      either(typed, { correlationKey: "k", correlationScope: [] }, "note", "x"),
      "INVALID_OPTION",
      "correlationKey",
    ],
  ];
  for (const [promise, code, path] of refused)
    await expect(promise).rejects.toMatchObject({
      code: `ERR_GEN_DURABLE_${code}`,
      path: expect.stringContaining(path),
    });
  expect(await inboxOf(id)).toHaveLength(0);
});
