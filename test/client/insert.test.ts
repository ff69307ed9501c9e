// Inserts by a client: what lands in the row, duplicates, many rows, the caller's transaction, and what is refused.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import pg from "pg";
import { z } from "zod";
import { type Client, createClient } from "#core/client/client.js";
import { defineFsm } from "#core/definition/fsm.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { untilBlocked } from "../support/locks.js";
import { readRow } from "../support/rows.js";
import { logStatements, markStatements, statementsSince } from "../support/statements.js";

const counter = defineFsm({
  name: "counter",
  version: 3,
  queue: "counting",
  state: z.object({ target: z.number().int().default(0), n: z.number().int().default(0) }),
  steps: { count: (ctx) => ctx.done(ctx.state.n) },
});

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  await logStatements(database);
  client = createClient({ url: database.url });
});
afterAll(async () => {
  await client.close();
});

const countOf = async (key: string): Promise<number> =>
  (
    await database.one<{ n: number }>("SELECT count(*) AS n FROM gen_durable WHERE correlation_key = $1", [
      key,
    ])
  ).n;

test("INS-01: an insert with nothing but its definition is a runnable row at its first step", async () => {
  const inserted = await client.insert(counter);
  expect(inserted).toEqual({ ok: true, id: expect.any(Number) });
  expect(await readRow(database, inserted.id)).toMatchObject({
    fsm: "counter",
    fsm_version: 3,
    step: "count",
    status: "runnable",
    attempt: 0,
    visit: 1,
    priority: 0,
    queue: "counting",
    weight: 1,
    state: { target: 0, n: 0 },
    correlation_key: null,
  });
});

test("INS-04, INS-05: state is a JSON object with the schema's defaults, inserted alone or in bulk", async () => {
  const one = await client.insert(counter, { state: { target: 3 } });
  const [other] = await client.insertMany(counter, [{ state: { target: 4, n: 1 } }]);
  const rows = await database.query(
    "SELECT jsonb_typeof(state) AS type, state->>'target' AS target, state->>'n' AS n FROM gen_durable WHERE id = ANY ($1) ORDER BY id",
    [[one.id, other?.id]],
  );
  expect(rows).toEqual([
    { type: "object", target: "3", n: "0" },
    { type: "object", target: "4", n: "1" },
  ]);
});

test("INS-07, INS-08: queue, priority and delay of the insert win", async () => {
  const { id } = await client.insert(counter, { queue: "email", priority: -5, delayMs: 60_000 });
  const row = await database.one(
    "SELECT queue, priority, extract(epoch FROM eligible_at - inserted_at) AS delay FROM gen_durable WHERE id = $1",
    [id],
  );
  expect(row).toMatchObject({ queue: "email", priority: -5 });
  expect(Number(row.delay)).toBe(60);
  const at = new Date(Date.now() + 3_600_000);
  const later = await client.insert(counter, { at });
  expect((await readRow(database, later.id)).eligible_at).toEqual(at);
});

test("INS-10: a second insert of a live key is a duplicate, with the occupant's id", async () => {
  const first = await client.insert(counter, { correlationKey: "order:1" });
  const second = await client.insert(counter, { correlationKey: "order:1" });
  expect(first).toEqual({ ok: true, id: expect.any(Number) });
  expect(second).toEqual({ ok: false, reason: "duplicate", id: first.id });
  expect(await countOf("order:1")).toBe(1);
});

test("INS-11: the scope is the four live statuses, or the one given", async () => {
  const live = await client.insert(counter, { correlationKey: "scope:1" });
  const own = await client.insert(counter, {
    correlationKey: "scope:2",
    correlationScope: ["runnable", "done"],
  });
  const scopes = await database.query(
    "SELECT array_to_string(correlation_scope, ' ') AS scope FROM gen_durable WHERE id = ANY ($1) ORDER BY id",
    [[live.id, own.id]],
  );
  expect(scopes.map((row) => row.scope)).toEqual([
    "runnable executing awaiting_signal awaiting_children",
    "runnable done",
  ]);
});

test("INS-13, INS-14: a key is free again when the row leaves its scope", async () => {
  const first = await client.insert(counter, { correlationKey: "order:9" });
  await database.query("UPDATE gen_durable SET status = 'done' WHERE id = $1", [first.id]);
  const second = await client.insert(counter, { correlationKey: "order:9" });
  expect(second).toEqual({ ok: true, id: expect.any(Number) });
  const narrow = await client.insert(counter, {
    correlationKey: "order:10",
    correlationScope: ["runnable", "executing"],
  });
  await database.query("UPDATE gen_durable SET status = 'awaiting_signal' WHERE id = $1", [narrow.id]);
  expect(await readRow(database, narrow.id)).toMatchObject({ correlation_guard: null });
  expect(await client.insert(counter, { correlationKey: "order:10" })).toMatchObject({ ok: true });
});

test("INS-16: with an empty scope a key may be given twice", async () => {
  const options = { correlationKey: "loose:1", correlationScope: [] };
  expect(await client.insert(counter, options)).toMatchObject({ ok: true });
  expect(await client.insert(counter, options)).toMatchObject({ ok: true });
  expect(await countOf("loose:1")).toBe(2);
});

test("INS-17, N1: results of many rows come in their order, duplicates inside the call too", async () => {
  const k7 = await client.insert(counter, { correlationKey: "k7" });
  const results = await client.insertMany(counter, [
    { state: { n: 0 } },
    { correlationKey: "k8", state: { n: 1 } },
    { correlationKey: "k7", state: { n: 2 } },
    { correlationKey: "k8", state: { n: 3 } },
    { correlationKey: "k6", state: { n: 4 } },
    { state: { n: 5 } },
    { correlationKey: "k8", correlationScope: [], state: { n: 6 } },
    { correlationKey: "k8", correlationScope: [], state: { n: 7 } },
  ]);
  expect(results.map((result) => result.ok)).toEqual([true, true, false, false, true, true, true, true]);
  expect(results[2]).toEqual({ ok: false, reason: "duplicate", id: k7.id });
  expect(results[3]).toEqual({ ok: false, reason: "duplicate", id: results[1]?.id });
  for (const [place, result] of results.entries()) {
    if (result.ok) expect((await readRow(database, result.id)).state).toEqual({ target: 0, n: place });
  }
});

test("INS-19, STM-07: nothing is no statement, and a chunk of rows is one", async () => {
  const quiet = createClient({ url: database.url, poke: "none" });
  await quiet.insert(counter);
  const mark = markStatements(database);
  const sent = (): number =>
    statementsSince(database, mark).filter((one) => one.name?.startsWith("insert")).length;
  expect(await quiet.insertMany(counter, [])).toEqual([]);
  expect(sent()).toBe(0);
  await quiet.insert(counter);
  expect(sent()).toBe(1);
  await quiet.insertMany(
    counter,
    Array.from({ length: 2_000 }, () => ({})),
  );
  expect(sent()).toBe(2);
  await quiet.close();
});

test("N1: many chunks answer in order, with and without keys", async () => {
  const count = 4_321;
  const loose = await client.insertMany(
    counter,
    Array.from({ length: count }, (_, n) => ({ state: { n } })),
  );
  const keyed = await client.insertMany(
    counter,
    Array.from({ length: count }, (_, n) => ({
      state: { n },
      correlationKey: `many:${(n * 7_919) % count}`,
    })),
  );
  for (const results of [loose, keyed]) {
    const rows = await database.query<{ id: number; n: number }>(
      "SELECT id, CAST(state->>'n' AS int) AS n FROM gen_durable WHERE id = ANY ($1)",
      [results.map((result) => result.id)],
    );
    const byId = new Map(rows.map((row) => [row.id, row.n]));
    expect(results.map((result) => byId.get(result.id))).toEqual(Array.from({ length: count }, (_, n) => n));
  }
});

test("INS-20, N3: two callers insert the same new keys in opposite orders without a deadlock", async () => {
  const mark = database.log().length;
  const other = createClient({ url: database.url });
  for (let round = 0; round < 10; round++) {
    const rows = Array.from({ length: 300 }, (_, n) => ({ correlationKey: `race:${round}:${n}` }));
    const [up, down] = await Promise.all([
      client.insertMany(counter, rows),
      other.insertMany(counter, rows.toReversed()),
    ]);
    const down2 = down.toReversed();
    for (const [n, result] of up.entries()) {
      expect([result.ok, down2[n]?.ok].filter(Boolean)).toHaveLength(1);
      expect(result.id).toBe(down2[n]?.id);
    }
  }
  await other.close();
  expect(
    database
      .log()
      .slice(mark)
      .filter((line) => line.includes("deadlock")),
  ).toEqual([]);
});

test("N2: the occupant is found although it was invisible to the statement that it stopped", async () => {
  const x = await database.session();
  await x.query("BEGIN");
  const { rows } = await x.query(
    "INSERT INTO gen_durable (fsm, step, correlation_key, correlation_scope) VALUES ('counter', 'count', 'late:1', '{runnable}') RETURNING id",
  );
  const pending = client.insert(counter, { correlationKey: "late:1" });
  await untilBlocked(database);
  await x.query("COMMIT");
  expect(await pending).toEqual({ ok: false, reason: "duplicate", id: rows[0].id });
});

test("N2: an occupant that rolls back lets the insert through", async () => {
  const x = await database.session();
  await x.query("BEGIN");
  await x.query(
    "INSERT INTO gen_durable (fsm, step, correlation_key, correlation_scope) VALUES ('counter', 'count', 'late:2', '{runnable}')",
  );
  const pending = client.insert(counter, { correlationKey: "late:2" });
  await untilBlocked(database);
  await x.query("ROLLBACK");
  expect(await pending).toEqual({ ok: true, id: expect.any(Number) });
});

test("tx: what is inserted commits and rolls back with the caller's transaction", async () => {
  const x = await database.session();
  await x.query("BEGIN");
  const inserted = await client.insert(counter, { correlationKey: "tx:1", tx: x });
  expect(inserted).toMatchObject({ ok: true });
  expect(await countOf("tx:1")).toBe(0);
  const many = await client.insertMany(counter, [{ correlationKey: "tx:1" }, {}], { tx: x });
  expect(many).toEqual([
    { ok: false, reason: "duplicate", id: inserted.id },
    { ok: true, id: expect.any(Number) },
  ]);
  await x.query("ROLLBACK");
  expect(await countOf("tx:1")).toBe(0);
});

test("C3: any type parsers of a given pool change nothing, and it is not closed", async () => {
  const strange = new pg.Pool({
    connectionString: database.url,
    types: { getTypeParser: () => (value: unknown) => ({ value }) } as unknown as pg.CustomTypesConfig,
  });
  const mine = createClient({ pool: strange, schema: "gen_durable" });
  const first = await mine.insert(counter, { correlationKey: "parsers:1" });
  expect(first).toEqual({ ok: true, id: expect.any(Number) });
  expect(await mine.insert(counter, { correlationKey: "parsers:1" })).toEqual({
    ok: false,
    reason: "duplicate",
    id: first.id,
  });
  await mine.close();
  expect((await strange.query("SELECT 1 AS one")).rows).toHaveLength(1);
  await strange.end();
});

test("C2: terminated connections cost no call and no process", async () => {
  await client.insert(counter);
  await database.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gen-durable client' AND datname = current_database()",
  );
  const results: unknown[] = [];
  for (let tries = 0; tries < 12 && results.length === 0; tries++)
    await client.insert(counter).then(
      (result) => results.push(result),
      (error) => expect(error.code).toBe("ERR_GEN_DURABLE_DATABASE_UNREACHABLE"),
    );
  expect(results).toEqual([{ ok: true, id: expect.any(Number) }]);
});

test("by name: step and queue come from the catalogue, the newest version unless one is given", async () => {
  await database.query(
    `INSERT INTO fsms (name, version, queue, initial_step, steps) VALUES
       ('named', 1, 'old', 'first', '{first}'), ('named', 2, 'new', 'begin', '{begin}')`,
  );
  const newest = await client.insertByName("named", { state: { a: 1 } });
  const older = await client.insertByName("named", { version: 1, priority: 3 });
  expect(await readRow(database, newest.id)).toMatchObject({
    fsm: "named",
    fsm_version: 2,
    step: "begin",
    queue: "new",
    state: { a: 1 },
  });
  expect(await readRow(database, older.id)).toMatchObject({
    fsm_version: 1,
    step: "first",
    queue: "old",
    priority: 3,
  });
  await expect(client.insertByName("namd")).rejects.toMatchObject({
    code: "ERR_GEN_DURABLE_UNKNOWN_FSM",
    message: expect.stringContaining('did you mean "named"?'),
  });
  await expect(client.insertByName("named", { version: 9 })).rejects.toMatchObject({
    code: "ERR_GEN_DURABLE_UNKNOWN_FSM",
    path: "version",
  });
});

test("what a caller gets wrong is refused with code and path, and nothing is written", async () => {
  const before = await database.one<{ n: number }>("SELECT count(*) AS n FROM gen_durable");
  // Callers in JavaScript can pass anything.
  const insert = client.insert.bind(client) as (fsm: unknown, options?: unknown) => Promise<unknown>;
  const many = client.insertMany.bind(client) as (fsm: unknown, rows: unknown) => Promise<unknown>;
  const refused: [Promise<unknown>, string, string][] = [
    [insert({ name: "x" }), "UNKNOWN_FSM", "fsm"],
    [insert("counter"), "UNKNOWN_FSM", "fsm"],
    [insert(counter, { stat: {} }), "INVALID_OPTION", "stat"],
    [insert(counter, { state: { target: "3" } }), "INVALID_STATE", "state.target"],
    [insert(counter, { queue: "" }), "INVALID_NAME", "queue"],
    [insert(counter, { priority: 1.5 }), "INVALID_OPTION", "priority"],
    [insert(counter, { delayMs: Number.NaN }), "INVALID_SCHEDULE", "delayMs"],
    [insert(counter, { delayMs: -1 }), "INVALID_SCHEDULE", "delayMs"],
    [insert(counter, { at: new Date(Number.NaN) }), "INVALID_SCHEDULE", "at"],
    [insert(counter, { correlationKey: "x".repeat(513) }), "INVALID_NAME", "correlationKey"],
    [insert(counter, { correlationKey: "nul\0" }), "INVALID_NAME", "correlationKey"],
    [insert(counter, { correlationScope: ["alive"] }), "INVALID_OPTION", "correlationScope[0]"],
    [insert(counter, { tx: {} }), "INVALID_TX", "tx"],
    [insert(counter, { poke: "yes" }), "INVALID_OPTION", "poke"],
    [many(counter, {}), "INVALID_OPTION", "rows"],
    [many(counter, [{}, {}, { state: { n: "1" } }]), "INVALID_STATE", "rows[2].state.n"],
  ];
  for (const [promise, code, path] of refused)
    await expect(promise).rejects.toMatchObject({
      code: `ERR_GEN_DURABLE_${code}`,
      path: expect.stringContaining(path),
    });
  expect(await database.one("SELECT count(*) AS n FROM gen_durable")).toEqual(before);
});

test("a schema that is not there is named by every call, with what to do", async () => {
  const elsewhere = createClient({ url: database.url, schema: 'not "there"' });
  const tx = await database.session();
  // As a mapper hands it on.
  const mapper = {
    query: (text: string, values: unknown[]) =>
      database.pool.query(text, values).catch((error: unknown) => {
        throw new Error("Failed query", { cause: error });
      }),
  };
  const calls = [
    elsewhere.insert(counter),
    elsewhere.insert(counter, { tx }),
    elsewhere.insert(counter, { tx: mapper }),
    elsewhere.insertByName("counter"),
    elsewhere.insertMany(counter, [{}, {}]),
    elsewhere.signal(1, "go"),
    elsewhere.signal("key", "go", null, { tx: mapper }),
    elsewhere.signalOrInsert(counter, { correlationKey: "key" }, "go"),
    elsewhere.cancel(1),
    elsewhere.retry(1),
    elsewhere.get(1),
    elsewhere.list(),
    elsewhere.waitFor(1),
  ];
  for (const answer of await Promise.allSettled(calls))
    expect(answer).toMatchObject({
      status: "rejected",
      reason: {
        code: "ERR_GEN_DURABLE_NOT_MIGRATED",
        message: expect.stringContaining("gen-durable migrate"),
      },
    });
  await elsewhere.close();
  await expect(elsewhere.insert(counter)).rejects.toMatchObject({ code: "ERR_GEN_DURABLE_CLIENT_CLOSED" });
});

test("options of a client are checked, and a database must be named somewhere", async () => {
  const make = createClient as (options: unknown) => Client;
  expect(() => make({ ulr: "x" })).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_INVALID_OPTION" }),
  );
  expect(() => make({ url: "postgres://x", pool: database.pool })).toThrow(/exclude/);
  expect(() => make({ pool: {} })).toThrow(/pg pool/);
  const none = createClient({}, { env: {} });
  await expect(none.insert(counter)).rejects.toMatchObject({ code: "ERR_GEN_DURABLE_NO_DATABASE" });
  const found = createClient({}, { env: { PATH: "x" }, findDatabase: () => database.url });
  expect(await found.insert(counter)).toMatchObject({ ok: true });
  await found.close();
  const stated = createClient(
    {},
    { env: { DATABASE_URL: "postgres://nowhere", GEN_DURABLE_DATABASE_URL: database.url } },
  );
  expect(await stated.insert(counter)).toMatchObject({ ok: true });
  await stated.close();
});

test("more calls at once than a pool has connections wait for their turn; a pool that stays busy is a transient error that says so", async () => {
  // Only the pool's own patience differs from the default: a second instead of none.
  const pool = new pg.Pool({ connectionString: database.url, max: 1, connectionTimeoutMillis: 1_000 });
  const given = createClient({ pool });
  await given.insert(counter);
  const holder = await pool.connect();
  try {
    await expect(given.insert(counter)).rejects.toMatchObject({
      code: "ERR_GEN_DURABLE_POOL_BUSY",
      retryable: true,
      message: expect.stringContaining("fewer calls at once"),
    });
  } finally {
    holder.release();
  }
  await given.insert(counter);
  await pool.end();
});

test("a call waits for a place in the client's own pool for longer than for a server", async () => {
  const { openPool } = await import("#core/client/pool.js");
  const pool = await openPool({
    url: database.url,
    listenUrl: undefined,
    schema: "gen_durable",
    prepare: true,
  });
  const connected = await pool.connect();
  // pg keeps both where they can be read: the pool's wait for a place, the connection's for its server.
  expect(pool.options.connectionTimeoutMillis).toBe(60_000);
  expect(Reflect.get(connected, "_connectionTimeoutMillis")).toBe(10_000);
  connected.release();
  await pool.end();
});
