// K = 1: rows of an unconfigured key execute one at a time, whoever picks.
import { beforeEach, expect, test } from "@jest/globals";
import { reapRows } from "#coordinator/reap.js";
import { createDatabase } from "../support/database.js";
import { awaits, children, done, next, retry, stop } from "../support/outcomes.js";
import { insertExecuting, insertRow, readRow } from "../support/rows.js";
import { configure, pickRows, settle, statements } from "./rig.js";

const database = await createDatabase();
const connection = await database.connection();
const other = await database.connection();

beforeEach(() =>
  database.query("TRUNCATE gen_durable, signals, gen_durable_buckets, gen_durable_bucket_configs"),
);

const ids = ({ rows }: { rows: readonly { id: number }[] }) => rows.map(({ id }) => id);

test("K1-01, K1-02: of three rows of a key the head executes; the next one does after its outcome", async () => {
  const k = [];
  for (let i = 0; i < 3; i++) k.push(await insertRow(database, { concurrency_key: "account:1" }));
  const k2 = await insertRow(database, { concurrency_key: "account:2" });
  const first = await pickRows(connection);
  expect(ids(first)).toEqual([k[0], k2]);
  expect(first.busyKeys).toEqual(["account:1"]);
  const second = await pickRows(connection);
  expect(ids(second)).toEqual([]);
  expect(second.busyKeys).toEqual(["account:1"]);
  await settle(connection, first.rows, done());
  expect(ids(await pickRows(connection))).toEqual([k[1]]);
});

test("the head is the most urgent due row of the key", async () => {
  await insertRow(database, { concurrency_key: "a", priority: 5, eligibleInMs: -9_000 });
  await insertRow(database, { concurrency_key: "a", priority: -5, eligibleInMs: 60_000 });
  const head = await insertRow(database, { concurrency_key: "a" });
  expect(ids(await pickRows(connection))).toEqual([head]);
});

test("rows of unknown definitions do not hold up their key", async () => {
  await insertRow(database, { concurrency_key: "a", fsm: "other" });
  const known = await insertRow(database, { concurrency_key: "a" });
  expect(ids(await pickRows(connection))).toEqual([known]);
});

test("K1-04: a second executing row of a key cannot be committed", async () => {
  await insertExecuting(database, "n/1", { concurrency_key: "a" });
  const id = await insertRow(database, { concurrency_key: "a" });
  await expect(
    database.query(
      "UPDATE gen_durable SET status = 'executing', locked_by = 'n/2', lease_expires_at = now() WHERE id = $1",
      [id],
    ),
  ).rejects.toMatchObject({ code: "23505", constraint: "gen_durable_concurrency_active" });
});

test.each([
  ["done", done()],
  ["stop", stop("no")],
  ["retry", retry(60_000)],
  ["await", awaits(["go"])],
  ["children", children([{}])],
] as const)("K1-07: %s frees the key", async (_, decision) => {
  await insertRow(database, { concurrency_key: "a" });
  const sibling = await insertRow(database, { concurrency_key: "a" });
  const { rows } = await pickRows(connection);
  await settle(connection, rows, decision);
  expect(ids(await pickRows(connection))).toEqual([sibling]);
});

test("K1-08: next keeps the key, null clears it, a value switches it", async () => {
  const keys: Record<string, unknown> = {};
  for (const [name, key] of [
    ["keep", undefined],
    ["clear", null],
    ["switch", "b"],
  ] as const) {
    const id = await insertRow(database, { concurrency_key: "a" });
    await settle(connection, (await pickRows(connection)).rows, next("end", { key }));
    keys[name] = (await readRow(database, id)).concurrency_key;
    await database.query("TRUNCATE gen_durable, signals");
  }
  expect(keys).toEqual({ keep: "a", clear: null, switch: "b" });
});

test("two picks at once meet on the head: one takes it, nobody waits, and nothing is contended", async () => {
  const head = await insertRow(database, { concurrency_key: "a" });
  await insertRow(database, { concurrency_key: "a" });
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM gen_durable WHERE id = $1 FOR NO KEY UPDATE", [head]);
  const blocked = await pickRows(connection);
  expect(ids(blocked)).toEqual([]);
  expect(blocked.busyKeys).toEqual(["a"]);
  await holder.query("ROLLBACK");
  expect(ids(await pickRows(connection))).toEqual([head]);
});

test("K1-10: a race that the unique index decides is begun anew, and costs the pick's other rows nothing", async () => {
  // Rows of one key in two queues: each picker has a head of its own.
  const mine = await insertRow(database, { concurrency_key: "a" });
  const free = await insertRow(database);
  const rival = await insertRow(database, { concurrency_key: "a", queue: "other" });
  const winner = await database.session();
  await winner.query("BEGIN");
  await winner.query(
    "UPDATE gen_durable SET status = 'executing', locked_by = 'n/1', lease_expires_at = now() + interval '1 minute' WHERE id = $1",
    [rival],
  );
  let contended = 0;
  const picking = pickRows(connection, {}, () => contended++);
  await database.one("SELECT 1");
  await winner.query("COMMIT");
  expect(ids(await picking)).toEqual([free]);
  expect(contended).toBeLessThanOrEqual(1);
  expect(await readRow(database, mine)).toMatchObject({ status: "runnable", attempt: 0 });
});

test("K1-13: a dead owner's key is free again when the reaper returns its row", async () => {
  const head = await insertRow(database, { concurrency_key: "a" });
  await insertRow(database, { concurrency_key: "a" });
  await pickRows(connection, { claim: "dead/1" });
  expect(ids(await pickRows(connection))).toEqual([]);
  await reapRows(connection, statements, { deadNodes: ["dead"], leaseTtlMs: 1_000 });
  expect(ids(await pickRows(connection))).toEqual([head]);
});

test("K1-14: a keyed row that its rate denies does not hold the key", async () => {
  await configure(database, { api: { limit: 1, rate: 0 } });
  await insertRow(database, { rate_limit: "api" });
  await pickRows(connection);
  const rated = await insertRow(database, { concurrency_key: "a", rate_limit: "api" });
  const sibling = await insertRow(database, { concurrency_key: "a" });
  const first = await pickRows(connection);
  expect(ids(first)).toEqual([]);
  expect(first.denials).toMatchObject([{ kind: "rate", key: "api", why: "full", wanted: 1, granted: 0 }]);
  expect(ids(await pickRows(connection, { excluded: { keys: [], rates: ["api"] } }))).toEqual([sibling]);
  expect(await readRow(database, rated)).toMatchObject({ status: "runnable" });
});

test("picks that do not agree on which row of a key can start meet on its first one: one takes a row, nothing is contended", async () => {
  await configure(database, { api: { limit: 5, rate: 1 } });
  const rated = await insertRow(database, { concurrency_key: "a", rate_limit: "api" });
  const free = await insertRow(database, { concurrency_key: "a" });
  const excluded = { keys: [], rates: ["api"] };
  // Another pick, which finds tokens, is about to claim the first row.
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT FROM gen_durable WHERE id = $1 FOR NO KEY UPDATE", [rated]);
  const blocked = await pickRows(connection, { excluded });
  expect(ids(blocked)).toEqual([]);
  expect(blocked.busyKeys).toEqual(["a"]);
  await holder.query("ROLLBACK");
  expect(ids(await pickRows(connection, { excluded }))).toEqual([free]);
});

test("a freed key's head is found by its index, wherever the scan stands", async () => {
  const head = await insertRow(database, { concurrency_key: "a" });
  for (let i = 0; i < 3; i++) await insertRow(database, { concurrency_key: "a" });
  const place = { priority: 0, eligibleAt: "infinity", id: 0 };
  expect(ids(await pickRows(connection, { places: [place] }))).toEqual([]);
  expect(ids(await pickRows(other, { places: [place], probes: ["a"] }))).toEqual([head]);
});

test("a window bounds what a pick looks at, and says how far it got", async () => {
  await insertExecuting(database, "n/1", { concurrency_key: "a" });
  await database.query(
    "INSERT INTO gen_durable (fsm, step, concurrency_key) SELECT 'plain', 'start', 'a' FROM generate_series(1, 50)",
  );
  const behind = await insertRow(database);
  const first = await pickRows(connection, { windowRows: 50 });
  expect(first).toMatchObject({ rows: [], seen: 50, isCut: false, busyKeys: ["a"] });
  const second = await pickRows(connection, { windowRows: 50, places: first.reached });
  expect(ids(second)).toEqual([behind]);
  expect(second.seen).toBe(1);
});
