// Cancel, retry, get and list: what they do to a row and to its parent, and that their answers are true in a race.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { type Client, createClient } from "#core/client/client.js";
import { Session } from "#core/client/session.js";
import { listInstances } from "#core/client/view.js";
import { pokeChannel } from "#core/poke.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { untilBlocked } from "../support/locks.js";
import { insertExecuting, insertRow, insertRows, insertSignal, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  client = createClient({ url: database.url });
  await database.query(
    `INSERT INTO fsms (name, version, queue, initial_step, steps, on_cancel)
     VALUES ('tidy', 1, 'default', 'start', '{start,clean}', 'clean'), ('plain', 1, 'default', 'start', '{start}', NULL)`,
  );
});
afterAll(async () => {
  await client.close();
});

test("a runnable or parked instance without a clean-up step fails, and says cancelled and why", async () => {
  for (const status of ["runnable", "awaiting_signal", "awaiting_children"] as const) {
    const id = await insertRow(database, { status, awaits: ["go"], deadlineInMs: 1_000, visit: 3 });
    expect(await client.cancel(id, "no longer wanted")).toBe("cancelled");
    expect(await readRow(database, id)).toMatchObject({
      status: "failed",
      last_error: "cancelled: no longer wanted",
      cancel_reason: "no longer wanted",
      await_deadline: null,
      visit: 4,
    });
    expect(await client.cancel(id)).toBe("already_done");
  }
  const quiet = await insertRow(database);
  expect(await client.cancel(quiet)).toBe("cancelled");
  expect(await readRow(database, quiet)).toMatchObject({ last_error: "cancelled" });
});

test("an instance whose machine has a clean-up step goes there, once", async () => {
  const id = await insertRow(database, {
    fsm: "tidy",
    status: "awaiting_signal",
    awaits: ["go"],
    deadlineInMs: 1_000,
    attempt: 2,
    visit: 3,
  });
  expect(await client.cancel(id, "why")).toBe("cancelling");
  const row = {
    status: "runnable",
    step: "clean",
    cancel_reason: "why",
    cancel_requested: false,
    awaits: [],
    attempt: 0,
    visit: 4,
  };
  expect(await readRow(database, id)).toMatchObject(row);
  expect(await client.cancel(id, "again")).toBe("cancelling");
  expect(await readRow(database, id)).toMatchObject(row);
  expect(await client.cancel(id, "now", { force: true })).toBe("cancelled");
  expect(await readRow(database, id)).toMatchObject({ status: "failed", last_error: "cancelled: now" });
});

test("a running step is asked, keeps its claim, and its node is told; force ends it at once", async () => {
  const listener = await database.session();
  const heard: string[] = [];
  listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
  await listener.query(`LISTEN ${pokeChannel("gen_durable")}`);
  const id = await insertExecuting(database, "n/1");
  expect(await client.cancel(id, "stop it")).toBe("cancelling");
  expect(await readRow(database, id)).toMatchObject({
    status: "executing",
    locked_by: "n/1",
    cancel_requested: true,
    cancel_reason: "stop it",
    visit: 1,
  });
  await until(() => heard.includes(`\tcancel\t${id}`));
  expect(await client.cancel(id, "again")).toBe("cancelling");
  expect(await readRow(database, id)).toMatchObject({ cancel_reason: "stop it" });
  expect(await client.cancel(id, "really", { force: true })).toBe("cancelled");
  expect(await readRow(database, id)).toMatchObject({
    status: "failed",
    locked_by: null,
    lease_expires_at: null,
    cancel_requested: false,
    visit: 2,
  });
});

test("T3: force gives the gate slot back in the same transaction", async () => {
  await database.query(
    "INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available) VALUES ('conc', 'gate:1', 0, 5, 2), ('conc', 'gate:1', 1, 5, 4)",
  );
  const spec = { concurrency_key: "gate:1" };
  const slot = await insertExecuting(database, "n/2", { ...spec, concurrency_shard: 1 });
  const unstamped = await insertExecuting(database, "n/3", { ...spec, concurrency_shard: -1 });
  const asked = await insertExecuting(database, "n/4", { ...spec, concurrency_shard: 0 });
  expect(await client.cancel(slot, "x", { force: true })).toBe("cancelled");
  expect(await client.cancel(unstamped, "x", { force: true })).toBe("cancelled");
  expect(await client.cancel(asked, "x")).toBe("cancelling");
  expect(await database.query("SELECT shard, available FROM gen_durable_buckets ORDER BY shard")).toEqual([
    { shard: 0, available: 2 },
    { shard: 1, available: 5 },
  ]);
});

test("a cancel that meets a completion waits for it and answers already_done; unknown ids are not found", async () => {
  const id = await insertExecuting(database, "n/5");
  const x = await database.session();
  await x.query("BEGIN");
  await x.query("UPDATE gen_durable SET status = 'done', locked_by = NULL WHERE id = $1", [id]);
  const pending = client.cancel(id);
  await untilBlocked(database);
  await x.query("COMMIT");
  expect(await pending).toBe("already_done");
  expect(await readRow(database, id)).toMatchObject({ status: "done", cancel_requested: false });
  expect(await client.cancel(999_999_999)).toBe("not_found");
});

test("a cancel that meets a claim waits for it and asks the step that runs", async () => {
  const id = await insertRow(database);
  const x = await database.session();
  await x.query("BEGIN");
  await x.query(
    "UPDATE gen_durable SET status = 'executing', locked_by = 'n/6', lease_expires_at = now() + interval '1 minute' WHERE id = $1",
    [id],
  );
  const pending = client.cancel(id);
  await untilBlocked(database);
  await x.query("COMMIT");
  expect(await pending).toBe("cancelling");
  expect(await readRow(database, id)).toMatchObject({ status: "executing", cancel_requested: true });
});

const family = async (children: number): Promise<{ parent: number; ids: number[] }> => {
  const parent = await insertRow(database, {
    status: "awaiting_children",
    visit: 2,
    children_pending: children,
    queue: "parents",
  });
  const ids: number[] = [];
  for (let n = 0; n < children; n++)
    ids.push(await insertRow(database, { parent_id: parent, parent_visit: 2 }));
  return { parent, ids };
};

test("T2: a cancelled child is counted off its parent, and the last one wakes it", async () => {
  const { parent, ids } = await family(2);
  expect(await client.cancel(ids[0] ?? 0)).toBe("cancelled");
  expect(await readRow(database, parent)).toMatchObject({ status: "awaiting_children", children_pending: 1 });
  expect(await client.cancel(ids[0] ?? 0)).toBe("already_done");
  expect(await readRow(database, parent)).toMatchObject({ children_pending: 1 });
  expect(await client.cancel(ids[1] ?? 0)).toBe("cancelled");
  expect(await readRow(database, parent)).toMatchObject({
    status: "runnable",
    children_pending: 0,
    wake_reason: "children",
  });
});

test("T2: a child of an earlier round is not counted", async () => {
  const { parent, ids } = await family(1);
  await database.query("UPDATE gen_durable SET visit = 5 WHERE id = $1", [parent]);
  expect(await client.cancel(ids[0] ?? 0)).toBe("cancelled");
  expect(await readRow(database, parent)).toMatchObject({ status: "awaiting_children", children_pending: 1 });
});

test("T1: siblings cancelled at once, from two sides, join exactly once and do not deadlock", async () => {
  const { parent, ids } = await family(40);
  const other = createClient({ url: database.url });
  const answers = await Promise.all(
    ids.map((id, n) => (n % 2 === 0 ? client : other).cancel(n % 4 < 2 ? id : (ids[n ^ 1] ?? id))),
  );
  await other.close();
  expect(answers.filter((answer) => answer === "cancelled")).toHaveLength(
    new Set(ids).size - 0 - duplicates(ids),
  );
  const left = await database.query(
    "SELECT id FROM gen_durable WHERE parent_id = $1 AND status <> 'failed'",
    [parent],
  );
  for (const { id } of left) await client.cancel(id);
  expect(await readRow(database, parent)).toMatchObject({ status: "runnable", children_pending: 0 });
  expect(database.log().filter((line) => line.includes("deadlock"))).toEqual([]);
});

/** Ids that the test above names twice leave as many others out. */
function duplicates(ids: readonly number[]): number {
  const named = ids.map((id, n) => (n % 4 < 2 ? id : (ids[n ^ 1] ?? id)));
  return named.length - new Set(named).size;
}

test("CHI-11: without cascade children are left alone; with it the whole family ends, and no join wakes anybody", async () => {
  const { parent, ids } = await family(2);
  const grandchild = await insertRow(database, { parent_id: ids[0] ?? 0, parent_visit: 1 });
  const running = await insertExecuting(database, "n/7", { parent_id: ids[1] ?? 0, parent_visit: 1 });
  const done = await insertRow(database, { status: "done", parent_id: ids[1] ?? 0, parent_visit: 1 });
  const lone = await family(1);
  expect(await client.cancel(lone.parent)).toBe("cancelled");
  expect(await readRow(database, lone.ids[0] ?? 0)).toMatchObject({ status: "runnable" });
  expect(await client.cancel(parent, "all of it", { cascade: true })).toBe("cancelled");
  for (const id of [parent, ...ids, grandchild])
    expect(await readRow(database, id)).toMatchObject({
      status: "failed",
      last_error: "cancelled: all of it",
    });
  expect(await readRow(database, running)).toMatchObject({ status: "executing", cancel_requested: true });
  expect(await readRow(database, done)).toMatchObject({ status: "done" });
});

test("cascade: the cancelled root is counted off its own parent", async () => {
  const { parent, ids } = await family(1);
  await insertRow(database, { parent_id: ids[0] ?? 0, parent_visit: 1 });
  expect(await client.cancel(ids[0] ?? 0, "branch", { cascade: true })).toBe("cancelled");
  expect(await readRow(database, parent)).toMatchObject({ status: "runnable", wake_reason: "children" });
});

test("cascade: of two rows that would enter one correlation key the first takes it, and both are cancelled", async () => {
  const { parent, ids } = await family(2);
  await database.query(
    "UPDATE gen_durable SET correlation_key = 'ended', correlation_scope = '{failed}' WHERE id = ANY ($1)",
    [ids],
  );
  expect(await client.cancel(parent, "", { cascade: true })).toBe("cancelled");
  const rows = await Promise.all(ids.map((id) => readRow(database, id)));
  expect(rows.map((row) => [row.status, row.correlation_guard])).toEqual([
    ["failed", "ended"],
    ["failed", null],
  ]);
});

test("a row without an owner or a lease cannot execute", async () => {
  const bare = "INSERT INTO gen_durable (fsm, step, status, locked_by) VALUES ('x', 'y', 'executing', 'n/1')";
  await expect(database.query(bare)).rejects.toMatchObject({ constraint: "gen_durable_claimed" });
});

test("retry runs the failed step again as a new visit, with its inputs", async () => {
  const id = await insertRow(database, {
    status: "failed",
    step: "ship",
    attempt: 4,
    visit: 7,
    crashes: 2,
    last_error: "no",
    awaits: ["go"],
    cancel_reason: "old",
  });
  await insertSignal(database, id, "go");
  expect(await client.retry(id)).toEqual({ ok: true });
  expect(await readRow(database, id)).toMatchObject({
    status: "runnable",
    step: "ship",
    attempt: 0,
    visit: 8,
    crashes: 0,
    last_error: null,
    awaits: ["go"],
    cancel_reason: null,
  });
  expect(await client.retry(id)).toEqual({ ok: false, reason: "not_failed" });
  expect(await client.retry(999_999_999)).toEqual({ ok: false, reason: "not_found" });
});

test("retry is refused while its correlation key is occupied, also by a row that is not committed yet", async () => {
  const scope = {
    correlation_key: "retry:1",
    correlation_scope: ["runnable", "executing"] as ("runnable" | "executing")[],
  };
  const id = await insertRow(database, { status: "failed", ...scope });
  const occupant = await insertRow(database, scope);
  expect(await client.retry(id)).toEqual({ ok: false, reason: "duplicate", id: occupant });
  await database.query("UPDATE gen_durable SET status = 'done' WHERE id = $1", [occupant]);
  const x = await database.session();
  await x.query("BEGIN");
  const { rows } = await x.query(
    "INSERT INTO gen_durable (fsm, step, correlation_key, correlation_scope) VALUES ('plain', 'start', 'retry:1', '{runnable}') RETURNING id",
  );
  const pending = client.retry(id);
  await untilBlocked(database);
  await x.query("COMMIT");
  expect(await pending).toEqual({ ok: false, reason: "duplicate", id: rows[0].id });
  expect(await readRow(database, id)).toMatchObject({ status: "failed" });
});

test("retry of a child re-arms the join of the round that still waits, and detaches it from any other", async () => {
  const { parent, ids } = await family(2);
  const [one = 0, other = 0] = ids;
  await client.cancel(one);
  expect(await client.retry(one)).toEqual({ ok: true });
  expect(await readRow(database, parent)).toMatchObject({ status: "awaiting_children", children_pending: 2 });
  await client.cancel(one);
  await client.cancel(other);
  expect(await readRow(database, parent)).toMatchObject({ status: "runnable" });
  expect(await client.retry(one)).toEqual({ ok: true });
  expect(await readRow(database, one)).toMatchObject({
    status: "runnable",
    parent_id: null,
    parent_visit: null,
  });
  expect(await readRow(database, parent)).toMatchObject({ status: "runnable", children_pending: 0 });
});

test("a woken parent's queue and a retried instance's queue are poked", async () => {
  const listener = await database.session();
  const heard: string[] = [];
  listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
  await listener.query(`LISTEN ${pokeChannel("gen_durable")}`);
  const { ids } = await family(1);
  await client.cancel(ids[0] ?? 0);
  await until(() => heard.includes("parents"));
  const id = await insertRow(database, { status: "failed", queue: "again" });
  await client.retry(id);
  await until(() => heard.includes("again"));
});

test("get shows everything about an instance and its unread signals", async () => {
  const id = await insertRow(database, {
    status: "awaiting_signal",
    state: { n: 1 },
    awaits: ["go"],
    correlation_key: "get:1",
    correlation_scope: ["runnable"],
    deadlineInMs: 5_000,
  });
  const signal = await insertSignal(database, id, "other", { a: [1] });
  await database.query("INSERT INTO signals (target_id, name, consumed_at) VALUES ($1, 'old', now())", [id]);
  const found = await client.get(id);
  expect(found).toMatchObject({
    id,
    fsm: "plain",
    version: 1,
    step: "start",
    status: "awaiting_signal",
    state: { n: 1 },
    result: null,
    error: null,
    awaits: ["go"],
    correlationKey: "get:1",
    correlationScope: ["runnable"],
    parentId: null,
    inbox: [{ id: signal, name: "other", payload: { a: [1] } }],
  });
  expect(found?.awaitDeadline?.getTime()).toBeGreaterThan(Date.now());
  expect(found?.insertedAt).toBeInstanceOf(Date);
  expect(await client.get(999_999_999)).toBeUndefined();
});

test("V1: list pages through a filter, newest first, and finds what is old and rare", async () => {
  const rare = await insertRow(database, { queue: "rare", status: "failed" });
  const many = await insertRows(database, 1_050, { queue: "many" });
  const seen: number[] = [];
  let after: number | null = null;
  let pages = 0;
  do {
    const page = await client.list({ queue: "many", status: ["runnable", "done"] }, { limit: 500, after });
    seen.push(...page.instances.map((instance) => instance.id));
    after = page.next;
    pages++;
  } while (after !== null);
  expect(seen).toEqual(many.toReversed());
  expect(pages).toBe(3);
  expect((await client.list({ queue: "rare" })).instances).toMatchObject([
    { id: rare, status: "failed", queue: "rare" },
  ]);
  expect(await client.list({ fsm: "nobody" })).toEqual({ instances: [], next: null });
});

test("V1: a page that found nothing in its bound is short, and says where to go on", async () => {
  const session = new Session({
    schema: "gen_durable",
    prepare: true,
    pool: undefined,
    locate: async () => ({ url: database.url }),
  });
  const old = await insertRow(database, { queue: "sparse" });
  await insertRows(database, 95, { queue: "dense" });
  const young = await insertRow(database, { queue: "sparse" });
  const bounds = { stretchRows: 10, stretchesMax: 3 };
  const found: number[] = [];
  let after: number | null = null;
  let pages = 0;
  do {
    const page = await listInstances(session, { queue: "sparse" }, { after }, bounds);
    found.push(...page.instances.map((instance) => instance.id));
    after = page.next;
    pages++;
  } while (after !== null);
  await session.close();
  expect(found).toEqual([young, old]);
  expect(pages).toBeGreaterThanOrEqual(3);
});

test("list by status, parent and key", async () => {
  const id = await insertExecuting(database, "n/8", {
    correlation_key: "list:1",
    correlation_scope: ["executing"],
  });
  const { parent, ids } = await family(2);
  const idsOf = async (filter: Parameters<Client["list"]>[0]): Promise<number[]> =>
    (await client.list(filter)).instances.map((instance) => instance.id);
  expect(await idsOf({ status: "executing" })).toContain(id);
  expect(await idsOf({ correlationKey: "list:1" })).toEqual([id]);
  expect(await idsOf({ correlationKey: "list:1", status: "done" })).toEqual([]);
  expect(await idsOf({ parentId: parent })).toEqual(ids.toReversed());
});

test("what a caller gets wrong is refused with code and path", async () => {
  const any = client as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
  const refused: [Promise<unknown> | undefined, string, string][] = [
    [any.cancel?.({}), "INVALID_TARGET", "id"],
    [any.cancel?.(7, 5), "INVALID_OPTION", "reason"],
    [any.cancel?.(7, "x", { forced: true }), "INVALID_OPTION", "forced"],
    [any.cancel?.(7, "x", { force: 1 }), "INVALID_OPTION", "force"],
    [any.retry?.(-1), "INVALID_TARGET", "id"],
    [any.get?.(Number.NaN), "INVALID_TARGET", "id"],
    [any.list?.({ state: "done" }), "INVALID_OPTION", "state"],
    [any.list?.({ status: "finished" }), "INVALID_OPTION", "filter.status"],
    [any.list?.({}, { limit: 0 }), "INVALID_OPTION", "page.limit"],
  ];
  for (const [promise, code, path] of refused)
    await expect(promise).rejects.toMatchObject({
      code: `ERR_GEN_DURABLE_${code}`,
      path: expect.stringContaining(path),
    });
});
