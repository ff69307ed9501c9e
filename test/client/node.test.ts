// A client and a real node in another process: pokes, signals, waits, cancels and retries from end to end.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { type Client, createClient } from "#core/client/client.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { FAR_POLLS, startNode } from "../support/node.js";
import { readRow } from "../support/rows.js";
import { until } from "../support/until.js";

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  client = createClient({ url: database.url });
  await startNode({
    database,
    fsms: ["test/client/machines.ts"],
    config: {
      ...FAR_POLLS,
      queues: { default: 20, listeners: 20 },
      leaseTtlMs: 60_000,
      heartbeatIntervalMs: 20_000,
    },
  });
}, 60_000);
afterAll(async () => {
  await client.close();
});

const insert = async (name: string, state: Record<string, unknown> = {}): Promise<number> =>
  (await client.insertByName(name, { state })).id;

const untilStatus = (id: number, status: string) =>
  until(async () => (await readRow(database, id)).status === status, { describe: `${id} is ${status}` });

test("POKE-01, WAIT-01: with far polls an insert from another process starts at once, and its end is heard", async () => {
  const id = await insert("listener");
  expect(await client.waitFor(id, { timeoutMs: 10_000, until: ["awaiting"] })).toEqual({
    status: "awaiting",
    step: "woken",
  });
  expect(await client.signal(id, "go", { v: 1 })).toEqual({ ok: true });
  expect(await client.waitFor(id, { timeoutMs: 10_000 })).toEqual({ status: "done", result: [{ v: 1 }] });
});

test("SIG-04: two hundred signals race two hundred parks, and every instance wakes exactly once", async () => {
  const names = Array.from({ length: 200 }, (_, n) => `race:${n}`);
  const results = await Promise.all(
    names.map(async (correlationKey, n) => {
      const inserted = await client.insertByName("listener", { correlationKey });
      await client.signal(correlationKey, "go", n, { dedupKey: "once" });
      await client.signal(correlationKey, "go", n, { dedupKey: "once" });
      return client.waitFor(inserted.id, { timeoutMs: 30_000 });
    }),
  );
  expect(results).toEqual(names.map((_, n) => ({ status: "done", result: [n] })));
});

test("signalOrInsert: the message that comes before its instance is read by its first step", async () => {
  const { listener } = await import("./machines.js");
  const result = await client.signalOrInsert(listener, { correlationKey: "early" }, "go", "before");
  expect(result).toMatchObject({ ok: true, inserted: true });
  expect(await client.waitFor(result.id, { timeoutMs: 10_000 })).toEqual({
    status: "done",
    result: ["before"],
  });
});

test("a running step is asked by its ctx.signal, and its end becomes the cancellation", async () => {
  const id = await insert("patient");
  await untilStatus(id, "executing");
  expect(await client.cancel(id, "enough")).toBe("cancelling");
  expect(await client.waitFor(id, { timeoutMs: 10_000 })).toEqual({
    status: "failed",
    error: "cancelled: enough",
  });
  expect(await client.cancel(id)).toBe("already_done");
});

test("a machine with a clean-up step cleans up, whether it ran or was parked", async () => {
  for (const parks of [false, true]) {
    const id = await insert("tidy", { parks });
    await untilStatus(id, parks ? "awaiting_signal" : "executing");
    expect(await client.cancel(id, "enough")).toBe("cancelling");
    expect(await client.waitFor(id, { timeoutMs: 10_000 })).toEqual({
      status: "done",
      result: { cleaned: "enough" },
    });
  }
});

test("force ends a running instance at once, and its late outcome is refused", async () => {
  const id = await insert("patient");
  await untilStatus(id, "executing");
  expect(await client.cancel(id, "now", { force: true })).toBe("cancelled");
  expect(await client.waitFor(id, { timeoutMs: 0 })).toEqual({ status: "failed", error: "cancelled: now" });
});

test("a failed instance keeps its inbox, and its retry finds it", async () => {
  const id = await insert("fickle");
  expect(await client.waitFor(id, { timeoutMs: 10_000 })).toEqual({ status: "failed", error: "not yet" });
  await database.query("INSERT INTO signals (target_id, name, payload) VALUES ($1, 'late', '7')", [id]);
  expect(await client.retry(id)).toEqual({ ok: true });
  expect(await client.waitFor(id, { timeoutMs: 10_000 })).toEqual({ status: "done", result: 7 });
});
