// A poisonous outcome hurts its own instance only; contention and bad keys cost the batch nothing either.
import { beforeEach, describe, expect, test } from "@jest/globals";
import type { Decision } from "#core/protocol/outcome.js";
import { flush } from "#flusher/flush.js";
import { createDatabase } from "../support/database.js";
import {
  awaits,
  children,
  done,
  executingRows,
  flushEnv,
  flusherConnection,
  next,
  outcomeOf,
  recorded,
  retry,
  stop,
} from "../support/outcomes.js";
import { insertRow, readRow } from "../support/rows.js";

const database = await createDatabase();
const connection = await flusherConnection(database);
const env = flushEnv();

beforeEach(() => database.query("TRUNCATE gen_durable, signals"));

const NUL = String.fromCharCode(0);
const LONG = "k".repeat(600);
const poisons: Record<string, Decision> = {
  "a NUL in a state": next("b", { state: `{"x":"${NUL}"}` }),
  "an escaped NUL in a result": done('{"x":"\\u0000"}'),
  "a lone surrogate in a result": done('"\\ud800"'),
  "a number that no numeric holds": retry(0, '{"n":1e999999}'),
  "JSON that is none": next("b", { state: "{" }),
  "a NUL in a reason": stop(`x${NUL}`),
  "a NUL in a step's name": next(`b${NUL}`),
  "an empty step's name": next(""),
  "a step's name that is too long": next(LONG),
  "a concurrency key that is too long": next("b", { key: LONG }),
  "a rate limit that is empty": next("b", { rateLimit: "" }),
  "a weight of zero": next("b", { weight: 0 }),
  "a weight that is not a number": next("b", { weight: Number.NaN }),
  "a delay that no interval holds": next("b", { due: { delayMs: 1e300 } }),
  "an instant that no calendar holds": next("b", { due: { atMs: 1e300 } }),
  "a deadline that no calendar holds": awaits(["go"], 1e300),
  "a NUL in an awaited name": awaits([`go${NUL}`]),
  "a child's state with a NUL": children([{ state: `"${NUL}"` }, {}]),
  "a child's correlation key that is too long": children([{}, { correlationKey: LONG }]),
  "a child's queue that is empty": children([{ queue: "" }]),
  "a child's priority past an integer": children([{ priority: 2 ** 40 }]),
  "a child's version of zero": children([{ version: 0 }]),
};

test.each(Object.entries(poisons))("%s fails its instance; its batch mates commit", async (_, decision) => {
  const ids = await executingRows(database, 9);
  const [poisoned = 0] = ids.splice(4, 1);
  const outcomes = [...ids.slice(0, 4), poisoned, ...ids.slice(4)].map((id) =>
    outcomeOf(id, id === poisoned ? decision : done()),
  );
  const result = await flush(connection, outcomes, env);
  expect(result.committed.map((o) => o.id).sort((a, b) => a - b)).toEqual(outcomes.map((o) => o.id));
  expect(result.committed).toContain(outcomes[4]);
  expect(result.events.map((event) => event.name)).toEqual(["unstorable"]);
  const row = await readRow(database, poisoned);
  expect(row).toMatchObject({ status: "failed", visit: 2 });
  expect(row.last_error).toMatch(/^the outcome of step "start" could not be stored: .+\(\w{5}\)$/);
  expect(await database.query("SELECT status, count(*) FROM gen_durable GROUP BY 1 ORDER BY 1")).toEqual([
    { status: "done", count: 8 },
    { status: "failed", count: 1 },
  ]);
});

test("FLU-16: of 200 outcomes the one that cannot be stored fails, 199 commit, in a few transactions", async () => {
  const ids = await executingRows(database, 200);
  const outcomes = ids.map((id, i) => outcomeOf(id, i === 123 ? done('"\\u0000"') : done()));
  const result = await flush(connection, outcomes, env);
  expect(result.committed).toHaveLength(200);
  expect(result.transactions).toBeLessThan(12);
  expect(await database.query("SELECT id FROM gen_durable WHERE status = 'failed'")).toEqual([
    { id: ids[123] },
  ]);
});

test("an outcome whose failure cannot be stored either is given up, and told", async () => {
  const [id = 0, mate = 0] = await executingRows(database, 2);
  await database.query(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '22000'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON gen_durable FOR EACH ROW WHEN (OLD.fsm = 'cursed') EXECUTE FUNCTION refuse();
    UPDATE gen_durable SET fsm = 'cursed', locked_by = locked_by WHERE id = -1`);
  await database.query("ALTER TABLE gen_durable DISABLE TRIGGER refuse");
  await database.query("UPDATE gen_durable SET fsm = 'cursed' WHERE id = $1", [id]);
  await database.query("ALTER TABLE gen_durable ENABLE TRIGGER refuse");
  try {
    const result = await flush(connection, [outcomeOf(id, done()), outcomeOf(mate, done())], env);
    expect(result.committed.map((o) => o.id)).toEqual([mate]);
    expect(result.stale.map((o) => o.id)).toEqual([id]);
    expect(result.events.map((event) => event.name)).toEqual(["refused"]);
  } finally {
    await database.query("DROP TRIGGER refuse ON gen_durable; DROP FUNCTION refuse()");
  }
});

describe("correlation keys", () => {
  /** Held only while it waits to run: executing is not in the scope. */
  const debounced = { correlation_key: "order:1", correlation_scope: ["runnable" as const] };

  test("a transition into an occupied key loses its identity, commits, and tells both ids", async () => {
    const [id = 0, mate = 0] = await executingRows(database, 2);
    await database.query(
      "UPDATE gen_durable SET correlation_key = 'order:1', correlation_scope = '{runnable}' WHERE id = $1",
      [id],
    );
    const occupant = await insertRow(database, debounced);
    const result = await flush(connection, [outcomeOf(id, next("b")), outcomeOf(mate, done())], env);
    expect(result.committed).toHaveLength(2);
    expect(result.transactions).toBe(1);
    expect(result.events).toEqual([
      { name: "identity_lost", fields: { id, correlationKey: "order:1", occupant } },
    ]);
    expect(await readRow(database, id)).toMatchObject({
      status: "runnable",
      step: "b",
      correlation_key: "order:1",
      correlation_scope: "{}",
      correlation_guard: null,
    });
  });

  test("a free key is entered; of two rows of one batch one enters and the other loses its identity", async () => {
    const [a = 0, b = 0] = await executingRows(database, 2, debounced);
    const { events } = await flush(connection, [outcomeOf(a, next("b")), outcomeOf(b, retry())], env);
    expect(events).toEqual([
      { name: "identity_lost", fields: { id: b, correlationKey: "order:1", occupant: a } },
    ]);
    expect(await readRow(database, a)).toMatchObject({ correlation_guard: "order:1" });
  });

  test("a row whose transition stays out of the scope keeps its identity", async () => {
    const [parked = 0, finished = 0] = await executingRows(database, 2, debounced);
    await insertRow(database, debounced);
    const { events } = await flush(
      connection,
      [outcomeOf(parked, awaits(["go"])), outcomeOf(finished, done())],
      env,
    );
    expect(events).toEqual([]);
    expect(await readRow(database, parked)).toMatchObject({ correlation_scope: "{runnable}" });
  });

  test("a key that is taken between look and write is found by the next look", async () => {
    const [id = 0, mate = 0] = await executingRows(database, 2);
    await database.query(
      "UPDATE gen_durable SET correlation_key = 'order:1', correlation_scope = '{runnable}' WHERE id = $1",
      [id],
    );
    let occupant = 0;
    const racing = recorded(connection);
    const run: typeof racing.run = async (statement, values) => {
      if (statement.name.startsWith("apply_outcomes") && occupant === 0)
        occupant = await insertRow(database, debounced);
      return racing.run(statement, values);
    };
    const result = await flush({ ...racing, run }, [outcomeOf(id, next("b")), outcomeOf(mate, done())], env);
    expect(result.committed).toHaveLength(2);
    expect(result.events).toEqual([
      { name: "identity_lost", fields: { id, correlationKey: "order:1", occupant } },
    ]);
  });

  test("a parent that wakes into a taken key wakes without its identity; its child is none the worse", async () => {
    const parked = { ...debounced, status: "awaiting_children" as const, children_pending: 1, visit: 2 };
    const parents = [await insertRow(database, parked), await insertRow(database, parked)];
    const outcomes = [];
    for (const parentId of parents) {
      const [child = 0] = await executingRows(database, 1, { parent_id: parentId, parent_visit: 2 });
      outcomes.push(outcomeOf(child, done(), { parentId, parentVisit: 2 }));
    }
    const result = await flush(connection, outcomes, env);
    expect([result.committed.length, result.events]).toEqual([2, []]);
    const rows = await Promise.all(parents.map((id) => readRow(database, id)));
    expect(rows.map((row) => row.status)).toEqual(["runnable", "runnable"]);
    expect(rows.map((row) => row.correlation_guard).sort()).toEqual([null, "order:1"].sort());
    expect(
      await database.query("SELECT DISTINCT status FROM gen_durable WHERE parent_id IS NOT NULL"),
    ).toEqual([{ status: "done" }]);
  });

  test("a wait for somebody's open insert of the key is short: the others commit, this one is put off", async () => {
    const ids = await executingRows(database, 20);
    const [id = 0, fanout = 0] = ids;
    await database.query(
      "UPDATE gen_durable SET correlation_key = 'order:1', correlation_scope = '{runnable}' WHERE id = $1",
      [id],
    );
    const session = await database.session();
    await session.query("BEGIN");
    await session.query(
      "INSERT INTO gen_durable (fsm, step, correlation_key, correlation_scope) VALUES ('x', 'y', 'order:1', '{runnable}'), ('x', 'y', 'kid', '{runnable}')",
    );
    const decisionOf = (one: number) =>
      one === id ? next("b") : one === fanout ? children([{ correlationKey: "kid" }]) : done();
    const result = await flush(
      connection,
      ids.map((one) => outcomeOf(one, decisionOf(one))),
      env,
    );
    await session.query("ROLLBACK");
    expect(result.deferred.map(({ outcome, reason }) => [outcome.id, reason]).sort()).toEqual(
      [
        [id, "waited"],
        [fanout, "waited"],
      ].sort(),
    );
    expect(result.committed).toHaveLength(18);
    const again = await flush(
      connection,
      result.deferred.map(({ outcome }) => outcome),
      env,
    );
    expect(again.committed).toHaveLength(2);
    expect(await readRow(database, id)).toMatchObject({ correlation_guard: "order:1" });
    expect(await readRow(database, fanout)).toMatchObject({
      status: "awaiting_children",
      children_pending: 1,
    });
  });
});

test("a chain whose next key is taken elsewhere goes back to its queue", async () => {
  const [id = 0] = await executingRows(database, 1);
  await database.query(
    "INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at, concurrency_key) VALUES ('x', 'y', 'executing', 'o', now() + interval '1 minute', 'k')",
  );
  // A worker never runs ahead into an unconfigured key; were it to, the unique index would refuse it.
  await database.query(
    "ALTER TABLE gen_durable ADD CONSTRAINT probe CHECK (concurrency_shard IS DISTINCT FROM -1)",
  );
  try {
    const result = await flush(connection, [outcomeOf(id, next("b", { inline: true, key: "k" }))], env);
    expect([result.continued, result.committed.length]).toEqual([[], 1]);
    expect(await readRow(database, id)).toMatchObject({
      status: "runnable",
      concurrency_key: "k",
      locked_by: null,
    });
  } finally {
    await database.query("ALTER TABLE gen_durable DROP CONSTRAINT probe");
  }
});
