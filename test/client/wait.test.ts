// Waiting by a client: the five answers, deadlines, and what the watching costs.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { z } from "zod";
import { type Client, createClient } from "#core/client/client.js";
import { defineFsm } from "#core/definition/fsm.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { insertRow, insertRows } from "../support/rows.js";
import { logStatements, markStatements, statementsSince } from "../support/statements.js";
import { until } from "../support/until.js";

const typed = defineFsm({
  name: "typed",
  result: z.object({ sum: z.number() }),
  steps: { start: (ctx) => ctx.done({ sum: 1 }) },
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

const finish = (ids: readonly number[]) =>
  database.query(
    "UPDATE gen_durable SET status = 'done', result = to_jsonb(id), updated_at = now() WHERE id = ANY ($1)",
    [ids],
  );

const elapsed = async <T>(promise: Promise<T>): Promise<[T, number]> => {
  const startedMs = performance.now();
  return [await promise, performance.now() - startedMs];
};

test("WAIT-11: timeout 0 answers with what is there, in each status", async () => {
  const wait = (id: number) => client.waitFor(id, { timeoutMs: 0 });
  expect(await wait(await insertRow(database, { status: "done", result: { a: 1 } }))).toEqual({
    status: "done",
    result: { a: 1 },
  });
  expect(await wait(await insertRow(database, { status: "done" }))).toEqual({ status: "done", result: null });
  expect(await wait(await insertRow(database, { status: "failed", last_error: "no" }))).toEqual({
    status: "failed",
    error: "no",
  });
  expect(await wait(await insertRow(database, { status: "awaiting_signal", step: "ship" }))).toEqual({
    status: "awaiting",
    step: "ship",
  });
  for (const status of ["runnable", "executing", "awaiting_children"] as const)
    expect(await wait(await insertRow(database, { status }))).toEqual({ status: "busy", step: "start" });
});

test("WAIT-04: an unknown id is not found at once, whatever the timeout", async () => {
  const [answer, ms] = await elapsed(client.waitFor(999_999_999, { timeoutMs: 60_000 }));
  expect(answer).toEqual({ status: "not_found" });
  expect(ms).toBeLessThan(1_000);
});

test("WAIT-05: a row that somebody else finishes reaches its waiter within a few ticks", async () => {
  const id = await insertRow(database);
  const pending = elapsed(client.waitFor(id, { timeoutMs: 10_000 }));
  await until(async () => (await statementsOfWaits()) > 0);
  const finishedMs = performance.now();
  await finish([id]);
  expect((await pending)[0]).toEqual({ status: "done", result: id });
  expect(performance.now() - finishedMs).toBeLessThan(1_000);
});

test("WAIT-02, WAIT-07: at its deadline a waiter gets busy, and may ask again", async () => {
  const id = await insertRow(database, { step: "slow" });
  const [answer, ms] = await elapsed(client.waitFor(id, { timeoutMs: 100 }));
  expect(answer).toEqual({ status: "busy", step: "slow" });
  expect(ms).toBeGreaterThanOrEqual(95);
  const again = client.waitFor(id, { timeoutMs: 10_000 });
  await finish([id]);
  expect(await again).toMatchObject({ status: "done" });
});

test("until awaiting: a park on a signal ends the wait, by default it does not", async () => {
  const id = await insertRow(database);
  const either = client.waitFor(id, { timeoutMs: 10_000, until: ["done", "awaiting"] });
  const ended = client.waitFor(id, { timeoutMs: 10_000 });
  await database.query("UPDATE gen_durable SET status = 'awaiting_signal', step = 'ship' WHERE id = $1", [
    id,
  ]);
  expect(await either).toEqual({ status: "awaiting", step: "ship" });
  await finish([id]);
  expect(await ended).toMatchObject({ status: "done" });
});

test("a result is parsed by the machine's schema", async () => {
  const good = await insertRow(database, { status: "done", result: { sum: 3 } });
  const bad = await insertRow(database, { status: "done", result: { sum: "3" } });
  const answer = await client.waitFor(typed, good);
  if (answer.status === "done") expect(answer.result.sum).toBe(3);
  expect(answer.status).toBe("done");
  await expect(client.waitFor(typed, bad)).rejects.toMatchObject({
    code: "ERR_GEN_DURABLE_INVALID_RESULT",
    path: "result.sum",
  });
});

test("an AbortSignal ends the wait with its reason", async () => {
  const id = await insertRow(database);
  const controller = new AbortController();
  const pending = client.waitFor(id, { timeoutMs: 60_000, signal: controller.signal });
  controller.abort(new Error("enough"));
  await expect(pending).rejects.toThrow("enough");
  await expect(client.waitFor(id, { signal: AbortSignal.abort(new Error("before")) })).rejects.toThrow(
    "before",
  );
});

test("W3, WAIT-08: terminated connections in mid-wait cost no answer", async () => {
  const id = await insertRow(database);
  const pending = elapsed(client.waitFor(id, { timeoutMs: 10_000 }));
  const mark = markStatements(database);
  await until(() => statementsSince(database, mark).length > 0);
  for (let round = 0; round < 3; round++)
    await database.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gen-durable client' AND datname = current_database()",
    );
  await finish([id]);
  const [answer, ms] = await pending;
  expect(answer).toEqual({ status: "done", result: id });
  expect(ms).toBeLessThan(5_000);
});

test("W1, WAIT-10: a thousand waiters cost one query a tick, none cost none", async () => {
  const ids = await insertRows(database, 1_000);
  const pending = ids.map((id) => client.waitFor(id, { timeoutMs: 20_000 }));
  const mark = markStatements(database);
  const startedMs = performance.now();
  await until(async () => (await statementsOfWaits(mark)) >= 8);
  const ticks = (performance.now() - startedMs) / 25;
  expect(await statementsOfWaits(mark)).toBeLessThanOrEqual(ticks + 2);
  await finish(ids);
  const answers = await Promise.all(pending);
  expect(answers).toEqual(ids.map((id) => ({ status: "done", result: id })));
  // The last tick may still be on its way; after it nothing is asked.
  const quiet = markStatements(database);
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(await statementsOfWaits(quiet)).toBe(0);
});

test("W1: among many waiters the one that ends is answered soon, and the others wait on", async () => {
  const ids = await insertRows(database, 600);
  const controller = new AbortController();
  const pending = ids.map((id) => client.waitFor(id, { timeoutMs: 20_000, signal: controller.signal }));
  const first = ids[400] ?? 0;
  const mark = markStatements(database);
  await until(async () => (await statementsOfWaits(mark)) >= 3);
  await finish([first]);
  const [answer, ms] = await elapsed(pending[400] ?? Promise.reject(new Error("no waiter")));
  expect(answer).toEqual({ status: "done", result: first });
  expect(ms).toBeLessThan(1_000);
  controller.abort(new Error("enough"));
  const ended = await Promise.allSettled(pending);
  expect(ended.filter((end) => end.status === "rejected")).toHaveLength(599);
});

test("W2: an instance whose end was committed late is found all the same", async () => {
  const ids = await insertRows(database, 400);
  const controller = new AbortController();
  const pending = ids.map((id) => client.waitFor(id, { timeoutMs: 20_000, signal: controller.signal }));
  const mark = markStatements(database);
  const x = await database.session();
  await x.query("BEGIN");
  await x.query(
    "UPDATE gen_durable SET status = 'done', updated_at = now() - interval '1 hour' WHERE id = $1",
    [ids[7]],
  );
  await until(async () => (await statementsOfWaits(mark)) >= 6);
  await x.query("COMMIT");
  expect(await pending[7]).toEqual({ status: "done", result: null });
  controller.abort(new Error("enough"));
  await Promise.allSettled(pending);
});

test("an instance that is swept in mid-wait is not found", async () => {
  const id = await insertRow(database);
  const pending = client.waitFor(id, { timeoutMs: 10_000 });
  await database.query("DELETE FROM gen_durable WHERE id = $1", [id]);
  expect(await pending).toEqual({ status: "not_found" });
});

test("a database that never answers is an error, at once for timeout 0 and at the deadline otherwise", async () => {
  const nowhere = createClient({ url: "postgres://127.0.0.1:1/nothing" });
  const unreachable = { code: "ERR_GEN_DURABLE_DATABASE_UNREACHABLE", retryable: true };
  await expect(nowhere.waitFor(1, { timeoutMs: 0 })).rejects.toMatchObject(unreachable);
  await expect(nowhere.waitFor(1, { timeoutMs: 300 })).rejects.toMatchObject(unreachable);
  await nowhere.close();
});

test("close ends every wait", async () => {
  const other = createClient({ url: database.url });
  const pending = other.waitFor(await insertRow(database), { timeoutMs: 60_000 });
  const caught = expect(pending).rejects.toMatchObject({ code: "ERR_GEN_DURABLE_CLIENT_CLOSED" });
  await other.close();
  await caught;
});

test("what a caller gets wrong is refused with code and path", async () => {
  const wait = client.waitFor.bind(client) as (...given: unknown[]) => Promise<unknown>;
  const refused: [Promise<unknown>, string, string][] = [
    [wait("7"), "INVALID_TARGET", "id"],
    [wait(7, { timeoutMs: -1 }), "INVALID_OPTION", "timeoutMs"],
    [wait(7, { timeoutMs: Number.NaN }), "INVALID_OPTION", "timeoutMs"],
    [wait(7, { until: ["busy"] }), "INVALID_OPTION", "until"],
    [wait(7, { signal: {} }), "INVALID_OPTION", "signal"],
    [wait(7, { timeout: 5 }), "INVALID_OPTION", "timeout"],
    [wait({}, 7), "UNKNOWN_FSM", "fsm"],
  ];
  for (const [promise, code, path] of refused)
    await expect(promise).rejects.toMatchObject({
      code: `ERR_GEN_DURABLE_${code}`,
      path: expect.stringContaining(path),
    });
});

async function statementsOfWaits(mark = 0): Promise<number> {
  return statementsSince(database, mark).filter((one) => one.name?.startsWith("watch_instances")).length;
}
