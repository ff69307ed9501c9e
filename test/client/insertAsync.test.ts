// insertAsync: what is buffered, when it is written, who learns what became of it.

import { channel } from "node:diagnostics_channel";
import { afterEach, beforeAll, expect, test } from "@jest/globals";
import { z } from "zod";
import { type Client, createClient } from "#core/client/client.js";
import type { ClientOptions } from "#core/client/options.js";
import { defineFsm } from "#core/definition/fsm.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { logStatements, markStatements, statementsSince } from "../support/statements.js";
import { until } from "../support/until.js";

const counter = defineFsm({
  name: "counter",
  state: z.object({ n: z.number().int().default(0) }),
  steps: { count: (ctx) => ctx.done(ctx.state.n) },
});

let database: TestDatabase;
const clients: Client[] = [];

beforeAll(async () => {
  database = await createDatabase();
  await logStatements(database);
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close().catch(() => undefined)));
  await database.query("TRUNCATE gen_durable CASCADE");
});

function clientOf(insertBatcher: ClientOptions["insertBatcher"], options: ClientOptions = {}): Client {
  const client = createClient({ url: database.url, insertBatcher, ...options });
  clients.push(client);
  return client;
}

const countOf = async (like = "%"): Promise<number> =>
  (
    await database.one<{ n: number }>("SELECT count(*) AS n FROM gen_durable WHERE correlation_key LIKE $1", [
      like,
    ])
  ).n;
const inserts = (mark: ReturnType<typeof markStatements>): number =>
  statementsSince(database, mark).filter((one) => one.name?.startsWith("insert_")).length;

test("INS-25, B1: calls return at once, rows are written together, and duplicates of a key are dropped and counted", async () => {
  const client = clientOf({ maxRows: 100, maxDelayMs: 15 });
  const mark = markStatements(database);
  const options = [{ correlationKey: "buf:1" }, { correlationKey: "buf:2" }, { correlationKey: "buf:1" }];
  for (const one of options) expect(await client.insertAsync(counter, one)).toBeUndefined();
  await until(async () => (await countOf("buf:%")) === 2);
  expect(inserts(mark)).toBe(1);
  expect(await client.flush()).toEqual({ inserted: 2, duplicates: 1 });
  expect(await client.flush()).toEqual({ inserted: 0, duplicates: 0 });
});

test("flush writes what waits without waiting for the delay, two thousand rows a statement, in order", async () => {
  const client = clientOf({ maxRows: 2_000, maxDelayMs: 60_000 });
  const mark = markStatements(database);
  for (let n = 0; n < 4_100; n++) await client.insertAsync(counter, { state: { n } });
  expect(await client.flush()).toEqual({ inserted: 4_100, duplicates: 0 });
  expect(inserts(mark)).toBe(3);
  const rows = await database.query<{ n: number }>(
    "SELECT (state->>'n')::int AS n FROM gen_durable ORDER BY id",
  );
  expect(rows.map((row) => row.n)).toEqual(Array.from({ length: 4_100 }, (_, n) => n));
});

test("maxRows starts an insert, however long the delay", async () => {
  const client = clientOf({ maxRows: 3, maxDelayMs: 60_000 });
  for (const key of ["full:1", "full:2", "full:3"])
    await client.insertAsync(counter, { correlationKey: key });
  await until(async () => (await countOf("full:%")) === 3);
});

test("INS-26, B2: without a batcher, and with no room to wait, the row is there when the call returns", async () => {
  const plain = clientOf(undefined);
  await plain.insertAsync(counter, { correlationKey: "durable:1" });
  expect(await countOf("durable:1")).toBe(1);
  const full = clientOf({ maxBuffered: 0 });
  await full.insertAsync(counter, { correlationKey: "durable:2" });
  expect(await countOf("durable:2")).toBe(1);
  const narrow = clientOf({ maxBuffered: 1, maxDelayMs: 60_000 });
  await narrow.insertAsync(counter, { correlationKey: "waits" });
  await narrow.insertAsync(counter, { correlationKey: "does not" });
  expect([await countOf("waits"), await countOf("does not")]).toEqual([0, 1]);
});

test("what is wrong with a row is told before it is taken", async () => {
  const client = clientOf({});
  await expect(client.insertAsync(counter, { state: { n: "x" as unknown as number } })).rejects.toMatchObject(
    {
      code: "ERR_GEN_DURABLE_INVALID_STATE",
    },
  );
  expect(await client.flush()).toEqual({ inserted: 0, duplicates: 0 });
});

test("close writes what waits, and a closed client takes no more", async () => {
  const client = clientOf({ maxDelayMs: 60_000 });
  await client.insertAsync(counter, { correlationKey: "last" });
  await client.close();
  expect(await countOf("last")).toBe(1);
  await expect(client.insertAsync(counter)).rejects.toMatchObject({ code: "ERR_GEN_DURABLE_CLIENT_CLOSED" });
});

test("B3: rows outlive a lost connection", async () => {
  const client = clientOf({ maxDelayMs: 1 });
  await client.insertAsync(counter, { correlationKey: "outlives:0" });
  await until(async () => (await countOf("outlives:0")) === 1);
  await database.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'gen-durable client%' AND datname = current_database()",
  );
  await client.insertAsync(counter, { correlationKey: "outlives:1" });
  await until(async () => (await countOf("outlives:1")) === 1);
});

test("B3: a database that is not ready costs no row; flush says why, and the event how many wait", async () => {
  const events: unknown[] = [];
  const hear = (event: unknown): void => void events.push(event);
  channel("gen-durable:inserts").subscribe(hear);
  await database.query("ALTER TABLE gen_durable RENAME TO away");
  const client = clientOf({ maxDelayMs: 1 });
  await client.insertAsync(counter, { correlationKey: "later:1" });
  await client.insertAsync(counter, { correlationKey: "later:2" });
  await expect(client.flush()).rejects.toMatchObject({ code: "ERR_GEN_DURABLE_NOT_MIGRATED" });
  await database.query("ALTER TABLE away RENAME TO gen_durable");
  await until(async () => (await countOf("later:%")) === 2, { describe: "it tries again by itself" });
  expect(events).toContainEqual(expect.objectContaining({ rows: 2, lost: false }));
  channel("gen-durable:inserts").unsubscribe(hear);
});

test("B4: a row that the database refuses costs no other row, and flush says what is lost", async () => {
  await database.query("ALTER TABLE gen_durable ADD CONSTRAINT probe CHECK (state->>'n' <> '13')");
  const client = clientOf({ maxDelayMs: 60_000 });
  for (let n = 0; n < 50; n++) await client.insertAsync(counter, { state: { n }, correlationKey: `of:${n}` });
  await expect(client.flush()).rejects.toMatchObject({
    code: "ERR_GEN_DURABLE_INSERTS_LOST",
    message: expect.stringContaining("1 buffered insert was lost"),
    facts: { rows: 1 },
  });
  expect(await countOf("of:%")).toBe(49);
  await database.query("ALTER TABLE gen_durable DROP CONSTRAINT probe");
});

test("close says what it could not write", async () => {
  const client = createClient({
    url: "postgres://127.0.0.1:1/nowhere",
    insertBatcher: { maxDelayMs: 60_000 },
  });
  await client.insertAsync(counter);
  await client.insertAsync(counter);
  await expect(client.close()).rejects.toMatchObject({
    code: "ERR_GEN_DURABLE_INSERTS_LOST",
    facts: { rows: 2 },
  });
});

test("a queue is poked once for all of its rows", async () => {
  const listener = await database.session();
  const heard: string[] = [];
  listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
  const { pokeChannel } = await import("#core/poke.js");
  await listener.query(`LISTEN ${pokeChannel("gen_durable")}`);
  const client = clientOf({ maxDelayMs: 60_000 });
  for (let n = 0; n < 100; n++) await client.insertAsync(counter, { queue: n % 2 === 0 ? "even" : "odd" });
  await client.flush();
  await until(() => heard.length >= 2);
  expect(heard.toSorted()).toEqual(["even", "odd"]);
});
