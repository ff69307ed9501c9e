// The claim: which rows it takes, what comes with them, and what it leaves alone.
import { beforeEach, expect, test } from "@jest/globals";
import { type ClaimRequest, claimRunnable, type Place } from "#coordinator/claim.js";
import type { Connection } from "#core/database/connection.js";
import { Statements } from "#core/database/statements.js";
import { createDatabase } from "../support/database.js";
import { insertExecuting, insertRow, insertRows, insertSignal, readRow } from "../support/rows.js";

const database = await createDatabase();
const connection = await database.connection();
const statements = new Statements("gen_durable");
let picks = 0;

beforeEach(() => database.query("TRUNCATE gen_durable, signals"));

function claim(request: Partial<ClaimRequest> = {}, over: Connection = connection) {
  return claimRunnable(over, statements, {
    queue: "default",
    claim: `node/${++picks}`,
    rowsMax: 10,
    leaseTtlMs: 60_000,
    known: { names: ["plain"], versions: [1] },
    places: [],
    ...request,
  });
}

const ids = ({ rows }: { rows: readonly { id: number }[] }) => rows.map(({ id }) => id);

test("PICK-01: a claimed row is executing, has an owner, and a lease by the database's clock", async () => {
  const id = await insertRow(database, { state: { n: 1 }, attempt: 2, visit: 3 });
  const { rows } = await claim({ claim: "node/first", leaseTtlMs: 30_000 });
  expect(rows).toHaveLength(1);
  expect(rows[0]).toMatchObject({
    id,
    claim: "node/first",
    fsm: "plain",
    version: 1,
    step: "start",
    attempt: 2,
    visit: 3,
    queue: "default",
    inbox: null,
    children: null,
    verdict: null,
  });
  expect(JSON.parse(rows[0]?.state ?? "")).toEqual({ n: 1 });
  expect(await readRow(database, id)).toMatchObject({ status: "executing", locked_by: "node/first" });
  const { lease } = await database.one<{ lease: number }>(
    "SELECT extract(epoch FROM lease_expires_at - now())::float8 AS lease FROM gen_durable WHERE id = $1",
    [id],
  );
  expect(lease).toBeGreaterThan(25);
  expect(lease).toBeLessThanOrEqual(30);
});

test("PICK-04: urgent priorities first, within one the earlier eligible_at, then the lower id", async () => {
  const late = await insertRow(database, { priority: 0, eligibleInMs: -1_000 });
  const low = await insertRow(database, { priority: 5, eligibleInMs: -9_000 });
  const early = await insertRow(database, { priority: 0, eligibleInMs: -2_000 });
  const urgent = await insertRow(database, { priority: -3 });
  expect(ids(await claim({ rowsMax: 3 }))).toEqual([urgent, early, late]);
  expect(ids(await claim())).toEqual([low]);
});

test("PICK-11: rows due in the future are not claimed, unless the caller says that it is later", async () => {
  const id = await insertRow(database, { eligibleInMs: 60_000 });
  expect(ids(await claim())).toEqual([]);
  expect(ids(await claim({ asOf: new Date(Date.now() + 120_000) }))).toEqual([id]);
});

test("PICK-13, PICK-14: rows of an unknown FSM or version are left untouched, and hide nothing behind them", async () => {
  const unknown = await insertRow(database, { fsm: "other", eligibleInMs: -5_000 });
  const newer = await insertRow(database, { fsm_version: 2, eligibleInMs: -5_000 });
  const known = await insertRow(database);
  expect(ids(await claim({ rowsMax: 1 }))).toEqual([known]);
  const { isShort } = await claim();
  expect(isShort).toBe(true);
  for (const id of [unknown, newer])
    expect(await readRow(database, id)).toMatchObject({ status: "runnable", attempt: 0, locked_by: null });
  expect(ids(await claim({ known: { names: ["plain", "other"], versions: [2, 1] } }))).toEqual([
    unknown,
    newer,
  ]);
});

test("other queues, parked, executing, ended and limited rows are left alone", async () => {
  await insertRow(database, { queue: "other" });
  await insertRow(database, { status: "awaiting_signal", awaits: ["go"] });
  await insertRow(database, { status: "done" });
  await insertRow(database, { concurrency_key: "42" });
  await insertRow(database, { rate_limit: "stripe" });
  await insertExecuting(database, "somebody/1");
  expect(ids(await claim())).toEqual([]);
});

test("PICK-05: a row under a signal insert's key lock is claimed; one that is locked for update is skipped", async () => {
  const [keyed = 0, locked = 0, free = 0] = await insertRows(database, 3);
  const other = await database.session();
  await other.query("BEGIN");
  await other.query("SELECT FROM gen_durable WHERE id = $1 FOR KEY SHARE", [keyed]);
  await other.query("SELECT FROM gen_durable WHERE id = $1 FOR NO KEY UPDATE", [locked]);
  expect(ids(await claim())).toEqual([keyed, free]);
  await other.query("ROLLBACK");
  expect(ids(await claim())).toEqual([locked]);
});

test("two claims at once take disjoint rows, and nothing beyond what they asked for stays locked", async () => {
  await insertRows(database, 100);
  const second = await database.connection();
  const [a, b] = await Promise.all([claim({ rowsMax: 60 }), claim({ rowsMax: 60 }, second)]);
  expect(new Set([...ids(a), ...ids(b)]).size).toBe(a.rows.length + b.rows.length);
  expect(a.rows.length + b.rows.length + (await claim({ rowsMax: 100 })).rows.length).toBe(100);
});

test("a claim resumes after the place it reached, a place a priority, and finds what came up on the urgent one", async () => {
  const urgent = await insertRows(database, 2, { priority: 0, eligibleInMs: -9_000 });
  const normal = await insertRows(database, 3, { priority: 5, eligibleInMs: -9_000 });
  const first = await claim({ rowsMax: 3 });
  expect(ids(first)).toEqual([...urgent, normal[0]]);
  expect(first.reached.map(({ priority }) => priority)).toEqual([0, 5]);
  const behind = await insertRow(database, { priority: 0, eligibleInMs: -20_000 });
  const fresh = await insertRow(database, { priority: 0 });
  const second = await claim({ rowsMax: 10, places: first.reached });
  expect(ids(second)).toEqual([fresh, normal[1], normal[2]]);
  expect(ids(await claim())).toEqual([behind]);
});

test("priorities without a place are found below, between and above those that have one", async () => {
  const known = await insertRows(database, 2, { priority: 5, eligibleInMs: -9_000 });
  const { reached } = await claim({ rowsMax: 2 });
  const places = [
    ...reached,
    { ...(reached[0] as Place), priority: 9 },
    { ...(reached[0] as Place), priority: 20 },
  ];
  const above = await insertRow(database, { priority: 2_147_483_647, eligibleInMs: -9_000 });
  const between = await insertRow(database, { priority: 7, eligibleInMs: -9_000 });
  const other = await insertRow(database, { priority: 8, eligibleInMs: -9_000 });
  const asleep = await insertRow(database, { priority: 1, eligibleInMs: 60_000 });
  const below = await insertRow(database, { priority: -2_147_483_648, eligibleInMs: -9_000 });
  const here = await insertRow(database, { priority: 9 });
  expect(known).toHaveLength(2);
  expect(ids(await claim({ rowsMax: 10, places }))).toEqual([below, between, other, here, above]);
  expect((await readRow(database, asleep)).status).toBe("runnable");
});

test("a margin looks a little before the places", async () => {
  await insertRows(database, 2, { eligibleInMs: -9_000 });
  const { reached } = await claim({ rowsMax: 2 });
  const late = await insertRow(database, { eligibleInMs: -9_500 });
  const old = await insertRow(database, { eligibleInMs: -20_000 });
  expect(ids(await claim({ places: reached }))).toEqual([]);
  expect(ids(await claim({ places: reached, marginMs: 1_000 }))).toEqual([late]);
  expect(ids(await claim({}))).toEqual([old]);
});

test("rows of one instant do not stop the cursor", async () => {
  const all = await insertRows(database, 40);
  await database.query("UPDATE gen_durable SET eligible_at = '2020-01-01 00:00:00.123456+00'");
  let places: Place[] = [];
  const claimed: number[] = [];
  for (let turn = 0; turn < 4; turn++) {
    const next = await claim({ rowsMax: 10, places });
    places = next.reached;
    claimed.push(...ids(next));
  }
  expect(claimed).toEqual(all);
});

test("PICK-16: inbox and children come with the rows that have some", async () => {
  const plain = await insertRow(database, { eligibleInMs: -3_000 });
  const parent = await insertRow(database, { eligibleInMs: -2_000, visit: 3, wake_reason: "children" });
  const child = await insertRow(database, {
    fsm: "kid",
    status: "done",
    result: { ok: true },
    parent_id: parent,
    parent_visit: 3,
  });
  const failed = await insertRow(database, {
    fsm: "kid",
    status: "failed",
    last_error: "no",
    parent_id: parent,
    parent_visit: 2,
  });
  const woken = await insertRow(database, { eligibleInMs: -1_000, awaits: ["go"], wake_reason: "signal" });
  const signal = await insertSignal(database, woken, "go", { v: 1 });
  const other = await insertSignal(database, woken, "other");
  await database.query("UPDATE signals SET consumed_at = now(), payload = NULL WHERE id = $1", [
    await insertSignal(database, woken, "go", 1, "k"),
  ]);

  const { rows } = await claim();
  expect(ids({ rows })).toEqual([plain, parent, woken]);
  expect(rows[0]).toMatchObject({ inbox: null, children: null });
  expect(JSON.parse(rows[1]?.children ?? "")).toEqual([
    { id: child, fsm: "kid", status: "done", error: null, round: 3, result: { ok: true } },
    { id: failed, fsm: "kid", status: "failed", error: "no", round: 2, result: null },
  ]);
  expect(rows[2]).toMatchObject({ awaits: ["go"], wokenBy: "signal", children: null });
  expect(JSON.parse(rows[2]?.inbox ?? "")).toEqual([
    { id: signal, name: "go", payload: { v: 1 } },
    { id: other, name: "other", payload: null },
  ]);
});

test("a claim stops at its bytes, but takes one row in any case", async () => {
  const all = await insertRows(database, 4, { state: { text: "x".repeat(100_000) } });
  const first = await claim({ bytesMax: 250_000 });
  expect(ids(first)).toEqual(all.slice(0, 2));
  expect(first.isShort).toBe(true);
  const second = await claim({ bytesMax: 10, rowsMax: 2 });
  expect(ids(second)).toEqual(all.slice(2, 3));
  expect(second.isShort).toBe(false);
  // An inbox counts as well.
  const heavy = await insertRow(database, { eligibleInMs: -1_000 });
  await insertSignal(
    database,
    heavy,
    "big",
    Array.from({ length: 30_000 }, (_, index) => index * 7_919),
  );
  expect(ids(await claim({ bytesMax: 20_000 }))).toEqual([heavy]);
});

test("cancel_reason, crashes and reaps come with the row", async () => {
  await insertRow(database, { cancel_reason: "enough", crashes: 2, reaps: 1 });
  const { rows } = await claim();
  expect(rows[0]).toMatchObject({ cancelReason: "enough", crashes: 2, reaps: 1 });
});

test("STM-01, STM-02: five rows or a hundred are three statements at most; nothing to do is one", async () => {
  const sent: string[] = [];
  const counting = new Proxy(connection, {
    get: (target, key) => {
      const member = Reflect.get(target, key, target);
      if (key !== "run") return typeof member === "function" ? member.bind(target) : member;
      return (...args: Parameters<Connection["run"]>) => {
        sent.push(args[0].name);
        return target.run(...args);
      };
    },
  });
  await claim({}, counting);
  expect(sent).toHaveLength(1);
  for (const count of [5, 100]) {
    const rows = await insertRows(database, count);
    for (const id of rows) await insertSignal(database, id, "go");
    await database.query(
      `INSERT INTO gen_durable (fsm, step, status, parent_id, parent_visit) SELECT 'kid', 's', 'done', id, 1 FROM gen_durable
       WHERE status = 'runnable'`,
    );
    await database.query("UPDATE gen_durable SET visit = 2 WHERE status = 'runnable'");
    sent.length = 0;
    const claimed = await claim({ rowsMax: 100 }, counting);
    expect(claimed.rows).toHaveLength(count);
    expect(claimed.rows.every((row) => row.inbox !== null && row.children !== null)).toBe(true);
    expect(sent).toHaveLength(3);
  }
});

test("an id that JavaScript cannot hold is refused where it is written, not by every node that reads it", async () => {
  for (const row of ["9007199254740992, NULL", "-1, NULL", "1, 9007199254740992"]) {
    await expect(
      database.query(
        `INSERT INTO gen_durable (fsm, step, id, parent_id) SELECT 'a', 'b', v.* FROM (VALUES (${row}::bigint)) AS v`,
      ),
    ).rejects.toMatchObject({ code: "23514" });
  }
});

test("past the byte budget children come without results, and with the beginning of their errors", async () => {
  const parent = await insertRow(database, { visit: 3, wake_reason: "children" });
  const facts = { fsm: "kid", status: "failed", parent_id: parent, parent_visit: 3 } as const;
  await insertRow(database, { ...facts, last_error: "a".repeat(500) });
  await insertRow(database, { ...facts, last_error: "b".repeat(600), result: { was: "there" } });
  const [row] = await connection.run<{ children: string }>(statements.get("picker/load_children"), [
    [parent],
    1_000,
    10,
  ]);
  expect(JSON.parse(row?.children ?? "")).toMatchObject([
    { error: "a".repeat(500) },
    { error: "b".repeat(100), result: null },
  ]);
});
