// The collector: what is old enough, what is spared, and that it waits for nobody.
import { beforeEach, expect, test } from "@jest/globals";
import { collectBatch } from "#coordinator/collector.js";
import { Statements } from "#core/database/statements.js";
import { createDatabase } from "../support/database.js";
import { insertRow, insertSignal } from "../support/rows.js";

const database = await createDatabase();
const connection = await database.connection();
const statements = new Statements("gen_durable");
const HOUR_MS = 3_600_000;

beforeEach(() => database.query("TRUNCATE gen_durable, signals"));

const collect = (options: { batch?: number; from?: string | null } = {}) =>
  collectBatch(connection, statements, { retentionMs: 60_000, batch: 100, from: null, ...options });
const remaining = async () =>
  (await database.query<{ id: number }>("SELECT id FROM gen_durable ORDER BY id")).map(({ id }) => id);
const aged = (spec: Parameters<typeof insertRow>[1] = {}) =>
  insertRow(database, { status: "done", updatedInMs: -HOUR_MS, ...spec });

test("REC-01: old done and failed rows go, with their signals; a fresh one and a runnable one stay", async () => {
  const done = await aged();
  await insertSignal(database, done, "late", null, "k");
  await aged({ status: "failed" });
  const fresh = await insertRow(database, { status: "done" });
  const runnable = await aged({ status: "runnable" });
  expect(await collect()).toMatchObject({ rows: 2, isShort: true });
  expect(await remaining()).toEqual([fresh, runnable]);
  expect(await database.query("SELECT FROM signals")).toEqual([]);
});

test("REC-02: a child is spared while its parent waits, and until the parent has gone on after the join", async () => {
  const parent = await insertRow(database, { status: "awaiting_children", visit: 2, children_pending: 1 });
  const child = await aged({ parent_id: parent, parent_visit: 2 });
  const earlier = await aged({ parent_id: parent, parent_visit: 1 });
  expect((await collect()).rows).toBe(1);
  expect(await remaining()).toEqual([parent, child]);
  expect(earlier).toBeGreaterThan(child);
  await database.query("UPDATE gen_durable SET status = 'runnable' WHERE id = $1", [parent]);
  expect((await collect()).rows).toBe(0);
  await database.query("UPDATE gen_durable SET visit = 3 WHERE id = $1", [parent]);
  expect((await collect()).rows).toBe(1);
  expect(await remaining()).toEqual([parent]);
});

test("REC-02: parent and children go together when the parent has ended, and children of a parent that is gone", async () => {
  const parent = await aged({ visit: 2 });
  await aged({ parent_id: parent, parent_visit: 2 });
  await aged({ parent_id: 999_999_999, parent_visit: 1 });
  expect((await collect()).rows).toBe(3);
});

test("a sweep goes on where its last batch ended, past spared rows", async () => {
  const parent = await insertRow(database, { status: "awaiting_children", visit: 2, children_pending: 1 });
  for (let n = 0; n < 3; n++) await aged({ parent_id: parent, parent_visit: 2, updatedInMs: -3 * HOUR_MS });
  for (let n = 0; n < 5; n++) await aged({ updatedInMs: -2 * HOUR_MS + n });
  const first = await collect({ batch: 2 });
  expect(first).toMatchObject({ rows: 2, isShort: false });
  const second = await collect({ batch: 2, from: first.endedAt });
  expect(second).toMatchObject({ rows: 2, isShort: false });
  expect(await collect({ batch: 2, from: second.endedAt })).toMatchObject({ rows: 1, isShort: true });
});

test("REC-13: a row that a session has locked is left to a later sweep; one that was revived stays", async () => {
  const locked = await aged();
  const free = await aged();
  const other = await database.session();
  await other.query("BEGIN");
  await other.query("UPDATE gen_durable SET status = 'runnable' WHERE id = $1", [locked]);
  expect((await collect()).rows).toBe(1);
  await other.query("COMMIT");
  expect((await collect()).rows).toBe(0);
  expect(await remaining()).toEqual([locked]);
  expect(free).toBeGreaterThan(locked);
});
