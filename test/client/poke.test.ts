// Pokes of a client: which notifications a listener hears, and when none.

import { BroadcastChannel } from "node:worker_threads";
import { afterEach, beforeAll, beforeEach, expect, test } from "@jest/globals";
import type pg from "pg";
import { type Client, createClient } from "#core/client/client.js";
import { defineFsm } from "#core/definition/fsm.js";
import { pokeChannel } from "#core/poke.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { insertRow, type RowSpec } from "../support/rows.js";
import { until } from "../support/until.js";

const plain = defineFsm({ name: "plain", steps: { start: (ctx) => ctx.done() } });

let database: TestDatabase;
let listener: pg.Client;
let client: Client;
let heard: string[] = [];

beforeAll(async () => {
  database = await createDatabase();
  listener = await database.session();
  listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
  await listener.query(`LISTEN ${pokeChannel("gen_durable")}`);
});
beforeEach(() => {
  client = createClient({ url: database.url });
});
afterEach(async () => {
  await client.close();
  await settled();
  heard = [];
});

/** Waits until what was sent before has been heard: notifications of one database come in the order of their commits. */
async function settled(): Promise<void> {
  const mark = `mark ${Math.random()}`;
  await database.query("SELECT pg_notify($1, $2)", [pokeChannel("gen_durable"), mark]);
  await until(() => heard.includes(mark));
  heard = heard.filter((payload) => payload !== mark);
}

test("POKE-14: an insert notifies with its own statement, before the call returns", async () => {
  await client.insert(plain, { queue: "a" });
  await settled();
  expect(heard).toEqual(["a"]);
});

test("POKE-05: ten inserts into one queue within 100 ms are one to three notifications, the first at once", async () => {
  // Connections first, so that the inserts fall within one window.
  await Promise.all(Array.from({ length: 9 }, () => client.get(1)));
  const startedMs = performance.now();
  await client.insert(plain, { queue: "a" });
  await settled();
  expect(heard).toEqual(["a"]);
  await Promise.all(Array.from({ length: 9 }, () => client.insert(plain, { queue: "a" })));
  await until(() => heard.length >= 2);
  await client.close();
  await settled();
  // Where they are spread over more than the first, short windows, each of those may have told of some.
  expect(heard.length).toBeLessThanOrEqual(3 + (performance.now() - startedMs) / 50);
});

test("POKE-13: a batch over three queues pokes each once, and only those with due rows", async () => {
  await client.insertMany(plain, [
    { queue: "a" },
    { queue: "b" },
    { queue: "c" },
    { queue: "a" },
    { queue: "far", delayMs: 60_000 },
  ]);
  await settled();
  expect(heard.toSorted()).toEqual(["a", "b", "c"]);
});

test("POKE-02: an insert due in a minute pokes nobody, one due soon says when", async () => {
  await client.insert(plain, { queue: "a", delayMs: 60_000 });
  await client.insert(plain, { queue: "a", delayMs: 400 });
  await client.insert(plain, { queue: "b", at: new Date(Date.now() + 60_000) });
  await settled();
  expect(heard).toEqual(["a\t400"]);
});

test("a duplicate pokes nobody and does not hold back the next insert's poke", async () => {
  await insertRow(database, { correlation_key: "dup", correlation_scope: ["runnable"] });
  await client.insert(plain, { queue: "a", correlationKey: "dup" });
  await client.insert(plain, { queue: "a" });
  await settled();
  expect(heard).toEqual(["a"]);
});

test("in the caller's transaction the poke rides along: nothing is heard before the commit, nothing after a rollback", async () => {
  const x = await database.session();
  await x.query("BEGIN");
  await client.insert(plain, { queue: "a", tx: x });
  await client.insert(plain, { queue: "a", tx: x });
  await settled();
  expect(heard).toEqual([]);
  await x.query("COMMIT");
  await settled();
  expect(heard).toEqual(["a"]);
  await x.query("BEGIN");
  await client.insert(plain, { queue: "b", tx: x });
  await x.query("ROLLBACK");
  await settled();
  expect(heard).toEqual(["a"]);
});

test("poke: false pokes nobody, nor does a client whose transport is none", async () => {
  await client.insert(plain, { queue: "a", poke: false });
  await client.insertMany(plain, [{ queue: "a" }], { poke: false });
  const id = await insertRow(database, { status: "awaiting_signal", awaits: ["go"] });
  await client.signal(id, "go", null, { poke: false });
  const none = createClient({ url: database.url, poke: "none" });
  await none.insert(plain, { queue: "a" });
  await none.close();
  await client.close();
  await settled();
  expect(heard).toEqual([]);
});

test("a local client reaches the threads of its process and nobody else", async () => {
  const channel = new BroadcastChannel(pokeChannel("gen_durable"));
  const local: unknown[] = [];
  channel.onmessage = (event) => local.push((event as { data: unknown }).data);
  const near = createClient({ url: database.url, poke: "local" });
  await near.insert(plain, { queue: "a" });
  await until(() => local.length > 0);
  expect(local).toEqual(["a"]);
  await settled();
  expect(heard).toEqual([]);
  await near.close();
  channel.close();
});

test("a signal pokes the queue of the instance that it wakes, once for many, and nobody for one that sleeps on", async () => {
  const spec: RowSpec = { status: "awaiting_signal", awaits: ["go"], queue: "woken" };
  const ids = [
    await insertRow(database, spec),
    await insertRow(database, spec),
    await insertRow(database, spec),
  ];
  const asleep = await insertRow(database, { ...spec, queue: "asleep" });
  await client.signal(asleep, "other");
  await client.signalMany(ids.slice(0, 2).map((target) => ({ target, name: "go" })));
  await settled();
  expect(heard).toEqual(["woken"]);
  await client.signal(ids[2] ?? 0, "go");
  await client.close();
  await settled();
  expect(heard).toEqual(["woken", "woken"]);
});

test("a queue's name may hold a tab", async () => {
  await client.insert(plain, { queue: "a\tb" });
  const id = await insertRow(database, { status: "awaiting_signal", awaits: ["go"], queue: "c\t7" });
  await client.signal(id, "go");
  await settled();
  expect(heard).toEqual(["a\tb\t0", "c\t7\t0"]);
});
