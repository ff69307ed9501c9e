// Who may write, and what is put off: the guard, stale outcomes, rows that somebody else holds locked.
import { beforeEach, describe, expect, test } from "@jest/globals";
import { flush } from "#flusher/flush.js";
import { createDatabase } from "../support/database.js";
import { untilBlocked } from "../support/locks.js";
import {
  awaits,
  children,
  done,
  executingRows,
  flushEnv,
  flusherConnection,
  next,
  outcomeOf,
  retry,
} from "../support/outcomes.js";
import { insertRow, insertSignal, readRow } from "../support/rows.js";

const database = await createDatabase();
const connection = await flusherConnection(database);
const env = flushEnv();
const other = await database.session();

beforeEach(() => database.query("TRUNCATE gen_durable, signals"));

const run = (outcomes: ReturnType<typeof outcomeOf>[]) => flush(connection, outcomes, env);
const ids = (outcomes: readonly { id: number }[]) => outcomes.map((outcome) => outcome.id);

/** Holds rows locked while `body` runs. */
async function whileLocked<T>(locked: number[], body: () => Promise<T>): Promise<T> {
  await other.query("BEGIN");
  await other.query("SELECT 1 FROM gen_durable WHERE id = ANY ($1) FOR UPDATE", [locked]);
  try {
    return await body();
  } finally {
    await other.query("ROLLBACK");
  }
}

describe("stale", () => {
  test("FLU-02: an outcome under another claim commits nothing and is reported; its batch mates commit", async () => {
    const [taken = 0, mine = 0] = await executingRows(database, 2);
    await database.query("UPDATE gen_durable SET locked_by = 'other/1', state = '{\"x\":1}' WHERE id = $1", [
      taken,
    ]);
    const before = await readRow(database, taken);
    const result = await run([outcomeOf(taken, done("1")), outcomeOf(mine, done())]);
    expect(ids(result.stale)).toEqual([taken]);
    expect(ids(result.committed)).toEqual([mine]);
    expect(await readRow(database, taken)).toEqual(before);
    expect(result.events).toEqual([
      {
        name: "stale",
        fields: { id: taken, fsm: "plain", version: 1, step: "start", kind: "done", queue: "default" },
      },
    ]);
  });

  test("FLU-07: the same node's later claim, a later visit, a parked row and a row that is gone are all stale", async () => {
    const [reclaimed = 0, moved = 0, parked = 0] = await executingRows(database, 3);
    await database.query("UPDATE gen_durable SET locked_by = 'node/2' WHERE id = $1", [reclaimed]);
    await database.query("UPDATE gen_durable SET visit = 2 WHERE id = $1", [moved]);
    await database.query(
      "UPDATE gen_durable SET status = 'awaiting_signal', locked_by = NULL WHERE id = $1",
      [parked],
    );
    const result = await run([reclaimed, moved, parked, 987_654].map((id) => outcomeOf(id, done())));
    expect(ids(result.stale)).toEqual([reclaimed, moved, parked, 987_654]);
  });

  test("a second outcome of one claim and visit is stale, in the same batch and after it", async () => {
    const [id = 0] = await executingRows(database, 1);
    const result = await run([outcomeOf(id, retry()), outcomeOf(id, done())]);
    expect([ids(result.committed), ids(result.stale)]).toEqual([[id], [id]]);
    expect(ids((await run([outcomeOf(id, retry())])).stale)).toEqual([id]);
    expect(await readRow(database, id)).toMatchObject({ status: "runnable", attempt: 1, visit: 1 });
  });

  test("FLU-04, FLU-13: a stale done fires no rider: its inbox, its parent and its batch mates' inboxes are as they should be", async () => {
    const parent = await insertRow(database, { status: "awaiting_children", children_pending: 2, visit: 2 });
    const [stale = 0, mine = 0] = await executingRows(database, 2, { parent_id: parent, parent_visit: 2 });
    await database.query("UPDATE gen_durable SET locked_by = 'other/1' WHERE id = $1", [stale]);
    for (const id of [stale, mine]) await insertSignal(database, id, "go");
    const kin = { parentId: parent, parentVisit: 2 };
    await run([outcomeOf(stale, done(), kin), outcomeOf(mine, done(), kin)]);
    expect(await readRow(database, parent)).toMatchObject({
      status: "awaiting_children",
      children_pending: 1,
    });
    expect(await database.query("SELECT target_id FROM signals")).toEqual([{ target_id: stale }]);
  });

  test("FLU-05: a stale fan-out inserts no child and consumes nothing", async () => {
    const [id = 0] = await executingRows(database, 1);
    const signal = await insertSignal(database, id, "go");
    await database.query("UPDATE gen_durable SET locked_by = 'other/1' WHERE id = $1", [id]);
    await run([outcomeOf(id, children([{}, {}]), { awaited: [signal] })]);
    expect(await database.one("SELECT count(*) FROM gen_durable WHERE parent_id = $1", [id])).toEqual({
      count: 0,
    });
    expect(await database.query("SELECT consumed_at FROM signals")).toEqual([{ consumed_at: null }]);
  });
});

describe("put off", () => {
  test("a row that somebody else holds locked is put off, not waited for and not stale; the others commit", async () => {
    const [locked = 0, free = 0] = await executingRows(database, 2);
    const outcomes = [outcomeOf(locked, done()), outcomeOf(free, done())];
    const result = await whileLocked([locked], () => run(outcomes));
    expect(result.deferred).toEqual([{ outcome: outcomes[0], reason: "locked" }]);
    expect([ids(result.committed), result.stale]).toEqual([[free], []]);
    expect(ids((await run(outcomes.slice(0, 1))).committed)).toEqual([locked]);
  });

  test("a row that changed under the lock since the statement's snapshot is judged by what stands in it now", async () => {
    const [id = 0] = await executingRows(database, 1);
    await other.query("BEGIN");
    await other.query("UPDATE gen_durable SET priority = 7 WHERE id = $1", [id]);
    // The flush that starts now cannot see the new version; the next one must neither miss it nor call it stale.
    const first = await run([outcomeOf(id, done())]);
    await other.query("COMMIT");
    const second = await run([outcomeOf(id, done())]);
    expect([first.deferred.length, ids(second.committed)]).toEqual([1, [id]]);
    expect(await readRow(database, id)).toMatchObject({ status: "done", priority: 7 });
  });

  test("a child that ends is put off while its parent is locked; one that goes on is not", async () => {
    const parent = await insertRow(database, { status: "awaiting_children", children_pending: 2, visit: 2 });
    const [ending = 0, going = 0] = await executingRows(database, 2, { parent_id: parent, parent_visit: 2 });
    const kin = { parentId: parent, parentVisit: 2 };
    const outcomes = [outcomeOf(ending, done(), kin), outcomeOf(going, next("b"), kin)];
    const result = await whileLocked([parent], () => run(outcomes));
    expect(result.deferred.map(({ outcome }) => outcome.id)).toEqual([ending]);
    expect(ids(result.committed)).toEqual([going]);
    expect(await readRow(database, ending)).toMatchObject({ status: "executing" });
  });

  test("a cancelled child that would end is put off while its parent is locked", async () => {
    const parent = await insertRow(database, { status: "awaiting_children", children_pending: 1, visit: 2 });
    const [child = 0] = await executingRows(database, 1, {
      parent_id: parent,
      parent_visit: 2,
      cancel_requested: true,
    });
    const outcome = outcomeOf(child, next("b"), { parentId: parent, parentVisit: 2 });
    const result = await whileLocked([parent], () => run([outcome]));
    expect(result.deferred).toEqual([{ outcome, reason: "locked" }]);
  });
});

describe("a delivery that races a park", () => {
  /** What a delivery does: lock and wake the target, then insert. */
  const wake = `UPDATE gen_durable SET status = CASE WHEN status = 'awaiting_signal' THEN 'runnable' ELSE status END
                WHERE id = $1 AND status NOT IN ('done', 'failed')`;
  const insert = "INSERT INTO signals (target_id, name) VALUES ($1, 'go')";

  test("that holds the row puts the park off, and is seen by the next try", async () => {
    const [id = 0] = await executingRows(database, 1);
    await other.query("BEGIN");
    await other.query(wake, [id]);
    await other.query(insert, [id]);
    const first = await run([outcomeOf(id, awaits(["go"]))]);
    await other.query("COMMIT");
    await run([outcomeOf(id, awaits(["go"]))]);
    expect(first.deferred).toHaveLength(1);
    expect(await readRow(database, id)).toMatchObject({ status: "runnable", wake_reason: "signal" });
  });

  test("that comes after the park's lock waits for its commit, and wakes the parked row", async () => {
    const [id = 0] = await executingRows(database, 1);
    let delivery: Promise<unknown> = Promise.resolve();
    const racing = {
      run: connection.run.bind(connection),
      command: async (text: string) => {
        if (text === "COMMIT") {
          delivery = other.query(wake, [id]);
          await untilBlocked(database);
        }
        return connection.command(text);
      },
    };
    await flush(racing, [outcomeOf(id, awaits(["go"]))], env);
    await delivery;
    expect(await readRow(database, id)).toMatchObject({ status: "runnable" });
  });
});
