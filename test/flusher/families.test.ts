// Flushers side by side: shared parents, the same new keys in opposite orders, and the caller's own transaction.
import { beforeEach, expect, test } from "@jest/globals";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { CALLERS_TRANSACTION, type Session } from "#flusher/env.js";
import { flush } from "#flusher/flush.js";
import { giveBack } from "#flusher/giveBack.js";
import { createDatabase } from "../support/database.js";
import { readHistory, recordHistory } from "../support/history.js";
import {
  CLAIM,
  children,
  done,
  executingRows,
  flushEnv,
  flusherConnection,
  next,
  outcomeOf,
  retry,
  stop,
} from "../support/outcomes.js";
import { insertExecuting, insertRow, readRow } from "../support/rows.js";

const database = await createDatabase();
const connections = [await flusherConnection(database), await flusherConnection(database)];
const [connection = await flusherConnection(database)] = connections;
const env = flushEnv();
await recordHistory(database);

beforeEach(() => database.query("TRUNCATE gen_durable, signals, test_history, gen_durable_buckets, fsms"));

let deadlocks = 0;

/** One of the connections, on which deadlocks are counted: a flush would cure them unseen. */
function counted(which: number): Session {
  const session = connections[which] ?? connection;
  return {
    run: async (statement, values) => {
      try {
        return await session.run(statement, values);
      } catch (error) {
        if ((error as { code?: string }).code === "40P01") deadlocks++;
        throw error;
      }
    },
    command: (text) => session.command(text),
  };
}

/** Flushes until nothing is put off, as a flusher does. */
async function flushAll(which: number, outcomes: readonly WireOutcome[]): Promise<void> {
  for (let rest = outcomes; rest.length > 0; ) {
    const { deferred } = await flush(counted(which), rest, env);
    if (deferred.length === rest.length)
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
    rest = deferred.map(({ outcome }) => outcome);
  }
}

test("FLU-17, CHI-17: two flushers that end children of shared parents never deadlock, and each join fires once", async () => {
  const parents: number[] = [];
  for (let i = 0; i < 20; i++)
    parents.push(await insertRow(database, { status: "awaiting_children", children_pending: 50, visit: 2 }));
  const rows = await database.query<{ id: number; parent_id: number }>(
    `INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at, parent_id, parent_visit)
     SELECT 'kid', 'start', 'executing', $1, now() + interval '1 minute', p, 2 FROM unnest($2::bigint[]) p, generate_series(1, 50)
     ORDER BY random() RETURNING id, parent_id`,
    [CLAIM, parents],
  );
  const outcomes = rows.map(({ id, parent_id }, i) =>
    outcomeOf(id, i % 7 === 0 ? stop("x") : done(), { parentId: Number(parent_id), parentVisit: 2 }),
  );
  const batches = (which: number) => async () => {
    const own = outcomes.filter((_, i) => i % 2 === which);
    for (let i = 0; i < own.length; i += 25) await flushAll(which, own.slice(i, i + 25));
  };
  await Promise.all([batches(0)(), batches(1)()]);
  for (const parent of parents) {
    expect(await readRow(database, parent)).toMatchObject({ status: "runnable", children_pending: 0 });
    const wakes = (await readHistory(database, parent)).filter((entry) => entry.status === "runnable");
    expect(wakes).toHaveLength(1);
  }
  expect(deadlocks).toBe(0);
});

test("CHI-19: two fan-outs that insert the same new keys in opposite orders do not deadlock; each key is inserted once", async () => {
  const keys = Array.from({ length: 40 }, (_, i) => ({ correlationKey: `key:${i}` }));
  for (let round = 0; round < 5; round++) {
    const [a = 0, b = 0] = await executingRows(database, 2);
    await Promise.all([
      flushAll(0, [outcomeOf(a, children(keys))]),
      flushAll(1, [outcomeOf(b, children([...keys].reverse()))]),
    ]);
    expect(await database.one("SELECT count(*) FROM gen_durable WHERE fsm = 'kid'")).toEqual({ count: 40 });
    await database.query("TRUNCATE gen_durable, signals");
  }
  expect(deadlocks).toBe(0);
});

test("K2: rows that somebody keeps changing are committed or put off, never called stale under a valid claim", async () => {
  const ids = await executingRows(database, 30);
  // The test's own statements must not deadlock with each other.
  const inOrder = "SELECT id FROM gen_durable WHERE id = ANY ($1) ORDER BY id FOR UPDATE";
  let over = false;
  const bumps = [await database.session(), await database.session()].map(async (session, i) => {
    while (!over)
      await session.query(
        `WITH mine AS MATERIALIZED (${inOrder}) UPDATE gen_durable g SET priority = priority + 1 FROM mine m WHERE g.id = m.id`,
        [ids.filter((_, n) => n % 2 === i)],
      );
  });
  try {
    for (let attempt = 0; attempt < 40; attempt++) {
      await database.query(
        `WITH mine AS MATERIALIZED (${inOrder})
         UPDATE gen_durable g SET status = 'executing', locked_by = $2, lease_expires_at = now() + interval '1 minute' FROM mine m WHERE g.id = m.id`,
        [ids, CLAIM],
      );
      for (let rest = ids.map((id) => outcomeOf(id, retry(), { attempt })); rest.length > 0; ) {
        const { stale, deferred } = await flush(connection, rest, env);
        expect(stale).toEqual([]);
        rest = deferred.map(({ outcome }) => outcome);
      }
    }
  } finally {
    over = true;
    await Promise.all(bumps);
  }
  expect(await database.query("SELECT DISTINCT attempt, visit FROM gen_durable")).toEqual([
    { attempt: 40, visit: 1 },
  ]);
});

test("CHI-13: 6,000 children in one fan-out", async () => {
  const [id = 0] = await executingRows(database, 1);
  await flushAll(0, [outcomeOf(id, children(Array.from({ length: 6_000 }, () => ({}))))]);
  expect(await readRow(database, id)).toMatchObject({ status: "awaiting_children", children_pending: 6_000 });
});

test("inside the caller's transaction everything is the caller's to commit; a poison costs it nothing", async () => {
  const [id = 0, bad = 0] = await executingRows(database, 2);
  await connection.command("BEGIN");
  const inside = { ...env, transaction: CALLERS_TRANSACTION };
  const result = await flush(
    connection,
    [outcomeOf(id, next("b")), outcomeOf(bad, done('"\\u0000"'))],
    inside,
  );
  expect(result.committed).toHaveLength(2);
  await connection.command("ROLLBACK");
  expect(await readRow(database, id)).toMatchObject({ status: "executing", step: "start" });
  expect(await readRow(database, bad)).toMatchObject({ status: "executing" });
});

test("rows that are given back credit their slots, keep their place and become the cancellation where one was asked for", async () => {
  await database.query(
    "INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available) VALUES ('conc', 'g', 0, 5, 3)",
  );
  await database.query(
    "INSERT INTO fsms (name, version, queue, initial_step, steps, on_cancel) VALUES ('tidy', 1, 'q', 's', '{s}', 'cleanUp')",
  );
  const gated = { concurrency_key: "g", concurrency_shard: 0, eligibleInMs: -9_000, startedInMs: -5 };
  const id = await insertExecuting(database, CLAIM, gated);
  const parent = await insertRow(database, { status: "awaiting_children", children_pending: 1, visit: 2 });
  const cancelled = await insertExecuting(database, CLAIM, {
    cancel_requested: true,
    parent_id: parent,
    parent_visit: 2,
  });
  const tidy = await insertExecuting(database, CLAIM, { fsm: "tidy", cancel_requested: true });
  const before = await readRow(database, id);
  const rows = [id, cancelled, tidy].map((one) => ({
    id: one,
    claim: CLAIM,
    seat: one,
    generation: 1,
    begun: true,
  }));
  const result = await giveBack(connection, rows, env);
  expect(result.returned.map((row) => row.id).sort((a, b) => a - b)).toEqual(
    [id, cancelled, tidy].sort((a, b) => a - b),
  );
  expect(await readRow(database, id)).toMatchObject({
    status: "runnable",
    crashes: 1,
    attempt: 1,
    started_at: null,
    concurrency_shard: null,
    eligible_at: before.eligible_at,
  });
  expect(await database.one("SELECT available FROM gen_durable_buckets")).toEqual({ available: 4 });
  expect(await readRow(database, cancelled)).toMatchObject({ status: "failed", last_error: "cancelled" });
  expect(await readRow(database, parent)).toMatchObject({ status: "runnable", wake_reason: "children" });
  expect(await readRow(database, tidy)).toMatchObject({ status: "runnable", step: "cleanUp" });
});

test("G4: a row that is given back twice at once credits its slot once, and both are answered", async () => {
  await database.query(
    "INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available) VALUES ('conc', 'twice', 0, 9, 3)",
  );
  const gated = { concurrency_key: "twice", concurrency_shard: 0, startedInMs: -5 };
  const id = await insertExecuting(database, CLAIM, gated);
  const cancelled = await insertExecuting(database, CLAIM, { ...gated, cancel_requested: true });
  const rows = [id, cancelled, id, cancelled].map((one) => ({
    id: one,
    claim: CLAIM,
    seat: one,
    generation: 1,
    begun: true,
  }));
  const { returned, deferred } = await giveBack(connection, rows, env);
  expect(returned.map((row) => row.id).sort((a, b) => a - b)).toEqual([id, id, cancelled, cancelled]);
  expect(deferred).toEqual([]);
  expect(await readRow(database, id)).toMatchObject({ status: "runnable", crashes: 1, attempt: 1 });
  expect(await readRow(database, cancelled)).toMatchObject({ status: "failed" });
  expect(await database.one("SELECT available FROM gen_durable_buckets WHERE key = 'twice'")).toEqual({
    available: 5,
  });
});

test("a given-back row that would enter an occupied key loses its identity", async () => {
  const scope = { correlation_key: "k", correlation_scope: ["runnable" as const] };
  const id = await insertExecuting(database, CLAIM, scope);
  const occupant = await insertRow(database, scope);
  const rows = [{ id, claim: CLAIM, seat: 1, generation: 1, begun: false }];
  const { returned, events } = await giveBack(connection, rows, env);
  expect(returned).toEqual(rows);
  expect(events).toEqual([{ name: "identity_lost", fields: { id, correlationKey: "k", occupant } }]);
  expect(await readRow(database, id)).toMatchObject({
    status: "runnable",
    attempt: 0,
    correlation_scope: "{}",
  });
});
