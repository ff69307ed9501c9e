// A node among hostile steps, rows that nobody in their right mind has written, and notifications from anybody: it lives, every
// failure says what was wrong, and everybody else's outcomes commit.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { pokeChannel } from "#core/poke.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { type NodeProcess, startNode } from "../support/node.js";
import { insertRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { HOSTILE } from "./hostile.js";
import { WAYS } from "./machines.js";

const INT_MAX = 2_147_483_647;

let database: TestDatabase;
let node: NodeProcess;

beforeAll(async () => {
  database = await createDatabase();
  node = await startNode({
    database,
    fsms: ["test/fuzz/machines.ts"],
    config: { queues: { default: 50 } },
  });
});
afterAll(() => node.kill());

async function untilQuiet(): Promise<void> {
  await until(
    async () => {
      if (node.hasExited) throw new Error(`the node has ended:\n${node.stderr.slice(-4_000)}`);
      const { open } = await database.one<{ open: number }>(
        "SELECT count(*)::int AS open FROM gen_durable WHERE status IN ('runnable', 'executing', 'awaiting_signal') AND fsm_version = 1",
      );
      return open === 0;
    },
    { timeoutMs: 50_000, describe: () => `every instance has ended; logged:\n${node.stderr.slice(-3_000)}` },
  );
}

async function innocents(count: number): Promise<void> {
  await database.query(
    `INSERT INTO gen_durable (fsm, step, state) SELECT 'innocent', 'start', jsonb_build_object('n', n) FROM generate_series(1, $1) n`,
    [count],
  );
}

test("whatever a step returns, throws or hands over, its own instance answers for it, and the node lives", async () => {
  await innocents(300);
  await database.query(
    `INSERT INTO gen_durable (fsm, step, state)
     SELECT fsm, 'start', jsonb_build_object('way', way, 'n', n)
       FROM generate_series(0, $1 - 1) way, generate_series(0, $2 - 1) n, unnest('{handed,handled}'::text[]) fsm
      WHERE fsm = 'handed' OR way = $3`,
    [WAYS.length, HOSTILE.length, WAYS.indexOf("throw")],
  );
  await innocents(300);
  await untilQuiet();
  expect(node.hasExited).toBe(false);
  const { innocent, failed, told, ended } = await database.one(
    `SELECT count(*) FILTER (WHERE fsm = 'innocent' AND status = 'done' AND result = state AND crashes = 0)::int AS innocent,
            count(*) FILTER (WHERE status = 'failed')::int AS failed,
            count(*) FILTER (WHERE status = 'failed' AND last_error <> '' AND octet_length(last_error) <= 8200)::int AS told,
            count(*)::int AS ended
       FROM gen_durable WHERE status IN ('done', 'failed')`,
  );
  expect(innocent).toBe(600);
  expect(told).toBe(failed);
  expect(ended).toBe(600 + (WAYS.length + 1) * HOSTILE.length);
  // A fault of a value is no fault of the engine's: no thread ended, nothing was split off by Postgres.
  const crashes = await database.one("SELECT coalesce(sum(crashes), 0)::int AS n FROM gen_durable");
  expect(crashes.n).toBe(0);
  expect(node.log.filter(({ msg }) => /could not be stored|thread has ended|is replaced/.test(msg))).toEqual(
    [],
  );
});

test("rows of raw SQL are run, refused or left, and cost nobody else anything", async () => {
  const odd = [
    { step: "nobody" },
    { fsm: "innocent", state: null },
    { fsm: "innocent", state: [1] },
    { fsm: "innocent", state: "text" },
    { fsm: "innocent", state: { n: "one" } },
    { attempt: INT_MAX },
    { attempt: -5 },
    { visit: INT_MAX },
    { crashes: INT_MAX, reaps: INT_MAX },
    { priority: INT_MAX },
    { priority: -INT_MAX },
    { wake_reason: "children" as const },
    { wake_reason: "signal" as const, awaits: ["nobody"], await_seen: [1, 2, 3] },
    { parent_id: 9_007_199_254_740_991, parent_visit: INT_MAX },
    { cancel_requested: true, cancel_reason: "x\ty" },
    { weight: 1e300 },
    { queue: "default", correlation_key: "k", correlation_scope: ["runnable"] as const },
    { status: "executing" as const, locked_by: "", leaseInMs: -1 },
    {
      status: "executing" as const,
      locked_by: "a/b/c",
      leaseInMs: -1,
      attempt: INT_MAX,
      visit: INT_MAX,
      reaps: INT_MAX,
      crashes: INT_MAX,
      startedInMs: -5,
    },
    { status: "executing" as const, locked_by: "y/1", leaseInMs: -1, visit: INT_MAX, cancel_requested: true },
    {
      status: "executing" as const,
      locked_by: "x",
      leaseInMs: -1,
      concurrency_key: "none:1",
      concurrency_shard: 77,
    },
    { status: "awaiting_signal" as const, deadlineInMs: -1, visit: INT_MAX },
  ];
  const ids: number[] = [];
  for (const spec of odd)
    ids.push(await insertRow(database, { fsm: "handed", step: "end", state: { way: 3, n: 0 }, ...spec }));
  const own = await insertRow(database, { fsm: "handed", step: "end", status: "failed" });
  await database.query(
    "UPDATE gen_durable SET parent_id = id, parent_visit = 1, status = 'runnable' WHERE id = $1",
    [own],
  );
  await database.query("UPDATE gen_durable SET state = '{\"n\": 1e400}' WHERE id = $1", [ids[4]]);
  const foreign = await insertRow(database, { fsm: "handed", fsm_version: INT_MAX });
  await innocents(100);
  await untilQuiet();
  const { left, done } = await database.one(
    `SELECT count(*) FILTER (WHERE status NOT IN ('done', 'failed'))::int AS left,
            count(*) FILTER (WHERE fsm = 'innocent' AND status = 'done')::int AS done FROM gen_durable`,
  );
  expect({ left, done }).toEqual({ left: 1, done: 700 });
  expect(await database.one("SELECT status, attempt FROM gen_durable WHERE id = $1", [foreign])).toEqual({
    status: "runnable",
    attempt: 0,
  });
});

test("anybody may notify on the channel", async () => {
  const channel = pokeChannel("gen_durable");
  const payloads = [
    "",
    "\t",
    "\t\t",
    "\tcancel\t",
    "\tcancel\t0",
    "\tcancel\t9999999999999999",
    "default\t-1",
    "default\tNaN",
    "default\t9999999999999999",
    "nobody",
    "__proto__",
    "constructor\t1",
    "x".repeat(7_000),
    "😀\t5",
  ];
  for (const payload of payloads) await database.query("SELECT pg_notify($1, $2)", [channel, payload]);
  await innocents(100);
  await untilQuiet();
  expect(node.hasExited).toBe(false);
  const { done } = await database.one<{ done: number }>(
    "SELECT count(*)::int AS done FROM gen_durable WHERE fsm = 'innocent' AND status = 'done'",
  );
  expect(done).toBe(800);
});
