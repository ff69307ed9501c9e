// What an instance costs in statements, as docs/PERFORMANCE.md says. Counted in the server's log, on a real node with far polls.
import { afterAll, expect, test } from "@jest/globals";
import { createClient } from "gen-durable";
import { createDatabase } from "../support/database.js";
import { FAR_POLLS, startNode } from "../support/node.js";
import { logStatements, markStatements, statementsSince } from "../support/statements.js";
import { until } from "../support/until.js";
import { chain, family, inline, one, waiter } from "./machines.js";

const database = await createDatabase();
await logStatements(database);
const client = createClient({ url: database.url });
afterAll(() => client.close());
const node = await startNode({
  database,
  fsms: ["test/cost/machines.ts"],
  exactConfig: { ...FAR_POLLS, queues: { default: 200 }, gc: false, reaper: false },
});

/** What a node says whether or not it has work, and what a session says once. */
const AMBIENT =
  /^(beat_node|read_process|find_due|watch_nodes|find_own|extend_leases|SELECT set_config|SELECT pg_listening|LISTEN)/;
/** Longer than the window in which a client's pokes are coalesced. */
const QUIET_MS = 200;
const FLUSH = { BEGIN: 1, lock_batch: 1, apply_outcomes: 1, COMMIT: 1 };

type Counts = Record<string, number>;

/** The statements of everybody between a call and the end of what it has set going, by name. */
async function costOf(call: () => Promise<unknown>, parked = 0): Promise<Counts> {
  await untilQuiet();
  const mark = markStatements(database);
  await call();
  await until(async () => (await countLive()) === parked, {
    describe: () => `all have ended or parked\n${node.stderr}`,
  });
  return countsSince(mark);
}

/** Nobody has said anything for longer than pokes are held back: what comes now comes of the next call. */
async function untilQuiet(): Promise<void> {
  let sinceMs = performance.now();
  let seen = "";
  await until(() => {
    const counts = JSON.stringify(countsSince(0));
    if (counts !== seen) sinceMs = performance.now();
    seen = counts;
    return performance.now() - sinceMs > QUIET_MS;
  });
}

async function countLive(): Promise<number> {
  const { executing, live } = await database.one<{ executing: number; live: number }>(
    `SELECT count(*) FILTER (WHERE status IN ('runnable', 'executing')) AS executing, count(*) AS live
     FROM gen_durable WHERE status NOT IN ('done', 'failed')`,
  );
  return executing > 0 ? -1 : live;
}

function countsSince(mark: number): Counts {
  const counts: Counts = {};
  for (const { name, text } of statementsSince(database, mark)) {
    // A batch that is done as a whole is written by a statement of its own.
    const short =
      name?.replace(/_[0-9a-f]{12}$/, "").replace(/apply_(done|next|inline)/, "apply_outcomes") ??
      text.replace(/^(BEGIN|COMMIT).*/, "$1");
    if (!AMBIENT.test(short)) counts[short] = (counts[short] ?? 0) + 1;
  }
  return counts;
}

const times = (count: number, counts: Counts): Counts =>
  Object.fromEntries(Object.entries(counts).map(([name, value]) => [name, value * count]));
const many = <T>(count: number, value: T): T[] => Array<T>(count).fill(value);
const insertMany = (count: number) => client.insertMany(one, many(count, { state: {} }));

test("one step: an insert, a claim, a flush", async () => {
  await costOf(() => insertMany(1));
  expect(await costOf(() => client.insert(one, { state: {} }))).toEqual({
    insert_unkeyed: 1,
    claim_runnable: 1,
    ...FLUSH,
  });
});

test("a hundred steps at once cost what a few do", async () => {
  const counts = await costOf(() => insertMany(100));
  expect(counts).toEqual({
    insert_unkeyed: 1,
    claim_runnable: expect.any(Number),
    BEGIN: expect.any(Number),
    lock_batch: counts.BEGIN,
    apply_outcomes: counts.BEGIN,
    COMMIT: counts.BEGIN,
  });
  expect(counts.claim_runnable).toBeLessThanOrEqual(3);
  expect(counts.BEGIN).toBeLessThanOrEqual(5);
});

test("insertMany: a statement for 2,000 rows", async () => {
  const mark = markStatements(database);
  await client.insertMany(one, many(4_001, { state: {}, delayMs: 3_600_000 }));
  expect(countsSince(mark)).toEqual({ insert_unkeyed: 3 });
  await database.query("DELETE FROM gen_durable WHERE status = 'runnable'");
});

test("a further step: a claim and a flush; with run-ahead a flush alone", async () => {
  expect(await costOf(() => client.insert(chain, { state: {} }))).toEqual({
    insert_unkeyed: 1,
    claim_runnable: 6,
    ...times(6, FLUSH),
  });
  expect(await costOf(() => client.insert(inline, { state: {} }))).toEqual({
    insert_unkeyed: 1,
    claim_runnable: 1,
    ...times(6, FLUSH),
  });
});

test("an await is a flush; a signal is one statement, and its step loads the inbox and consumes", async () => {
  const parked = await costOf(() => client.insert(waiter, { state: {} }), 1);
  expect(parked).toEqual({ insert_unkeyed: 1, claim_runnable: 1, ...FLUSH });
  const { id } = await database.one<{ id: number }>(
    "SELECT id FROM gen_durable WHERE status = 'awaiting_signal'",
  );
  expect(await costOf(() => client.signal(id, "go"))).toEqual({
    deliver_signals: 1,
    claim_runnable: 1,
    load_inboxes: 1,
    ...FLUSH,
    consume_signals: 1,
  });
});

test("a hundred signals are one statement, and one inbox load a claim", async () => {
  const inserted = await client.insertMany(waiter, many(100, { state: {} }));
  await until(async () => (await countLive()) === 100, { describe: "all are parked" });
  const counts = await costOf(() =>
    client.signalMany(inserted.map(({ id }) => ({ target: id, name: "go" }))),
  );
  expect(counts.deliver_signals).toBe(1);
  expect(counts.load_inboxes).toBeLessThanOrEqual(counts.claim_runnable ?? 0);
  expect(counts.claim_runnable).toBeLessThanOrEqual(3);
  expect(counts.consume_signals).toBe(counts.BEGIN);
  expect(counts.BEGIN).toBeLessThanOrEqual(5);
});

test("a fan-out: one more statement in its flush, one in each flush that ends children, and the join loads them once", async () => {
  const counts = await costOf(() => client.insert(family, { state: { n: 100 } }));
  expect(counts).toMatchObject({ insert_unkeyed: 1, insert_children: 1, load_children: 1 });
  // The parent twice, and the children's batches.
  expect(counts.apply_outcomes).toBeLessThanOrEqual(2 + 5);
  expect(counts.join_parents).toBe((counts.apply_outcomes ?? 0) - 2);
  expect(counts.claim_runnable).toBeLessThanOrEqual(2 + 4);
  expect(counts.poke_queues).toBeLessThanOrEqual(counts.apply_outcomes ?? 0);
});

test("an idle node sends at most two statements a second", async () => {
  const windowMs = 5_000;
  const mark = markStatements(database);
  const beginMs = performance.now();
  await until(() => performance.now() - beginMs > windowMs);
  const beats = statementsSince(database, mark).filter(({ application }) => application !== "test");
  expect(beats.length).toBeLessThanOrEqual((2 * windowMs) / 1_000);
});
