// The testing helpers: production SQL on the test's own connection, inside or outside its transaction.

import { afterEach, beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { createClient, defineFsm, defineJob } from "gen-durable";
import { createTester, type Tester } from "gen-durable/testing";
import type pg from "pg";
import { z } from "zod";
import { createDatabase, type TestDatabase } from "../support/database.js";

const counter = defineFsm({
  name: "counter",
  state: z.object({ target: z.number(), n: z.number().default(0) }),
  steps: {
    count: (ctx) =>
      ctx.state.n >= ctx.state.target
        ? ctx.done({ count: ctx.state.n })
        : ctx.next("count", { ...ctx.state, n: ctx.state.n + 1 }),
  },
});
const awaiter = defineFsm({
  name: "awaiter",
  state: z.object({ timeoutMs: z.number().optional() }),
  steps: {
    start: (ctx) =>
      ctx.awaitSignal(
        "go",
        "woken",
        ctx.state,
        ctx.state.timeoutMs === undefined ? {} : { timeoutMs: ctx.state.timeoutMs },
      ),
    woken: (ctx) => ctx.done(ctx.wokenBy === "timeout" ? "timed out" : ctx.awaited[0]?.payload),
  },
});
const crasher = defineFsm({
  name: "crasher",
  state: z.object({}),
  steps: {
    start: () => {
      throw new Error("no luck");
    },
  },
  handle: (_, ctx) => (ctx.attempt < 2 ? ctx.retry(ctx.state, { delayMs: 3_600_000 }) : ctx.stop("gave up")),
});
const parent = defineFsm({
  name: "parent",
  state: z.object({ kids: z.number() }),
  steps: {
    spawn: (ctx) =>
      ctx.scheduleChildren(
        "join",
        Array.from({ length: ctx.state.kids }, (_, n) => counter.child({ state: { target: n } })),
        ctx.state,
      ),
    join: (ctx) => ctx.done(ctx.children.map(({ result }) => result)),
  },
});
const flaky = defineJob({
  name: "flaky",
  args: z.object({ until: z.number() }),
  perform: (args, ctx) => {
    if (ctx.attempt < args.until) throw new Error("not yet");
    return { attempt: ctx.attempt };
  },
});

let database: TestDatabase;
let session: pg.Client;
let tester: Tester;
const client = () => createClient({ pool: database.pool });

describe.each([true, false])("the testing helpers, inside a transaction: %s", (inTransaction) => {
  beforeAll(async () => {
    database = await createDatabase();
    session = await database.session();
  });
  beforeEach(async () => {
    if (inTransaction) await session.query("BEGIN");
    tester = createTester({ client: session, fsms: [counter, awaiter, crasher, parent, flaky] });
  });
  afterEach(async () => {
    if (inTransaction) {
      await session.query("ROLLBACK");
      // TST-13: nothing is left.
      expect(await database.one("SELECT count(*) FROM gen_durable")).toEqual({ count: 0 });
    } else
      await session.query("TRUNCATE gen_durable, gen_durable_buckets, gen_durable_bucket_configs CASCADE");
  });
  const tx = () => ({ tx: session });

  test("TST-01: a drain runs everything and tallies what the steps decided", async () => {
    const { id } = await client().insert(counter, { state: { target: 3 }, ...tx() });
    expect(await tester.drain()).toEqual({
      steps: 4,
      next: 3,
      retry: 0,
      await: 0,
      children: 0,
      done: 1,
      stop: 0,
    });
    await tester.assertDone(id, { count: 3 });
  });

  test("TST-02: an instance parks, is signalled, and goes on in the next drain", async () => {
    const { id } = await client().insert(awaiter, { state: {}, ...tx() });
    expect(await tester.drain()).toMatchObject({ await: 1, done: 0 });
    await tester.assertAwaiting(id, "go");
    await expect(tester.assertAwaiting(id, "stop")).rejects.toThrow("awaits go");
    await client().signal(id, "go", { v: 1 }, tx());
    expect(await tester.drain()).toMatchObject({ steps: 1, done: 1 });
    await tester.assertDone(id, { v: 1 });
  });

  test("TST-04: retries do not wait for their delays", async () => {
    const { id } = await client().insert(crasher, { state: {}, ...tx() });
    expect(await tester.drain()).toMatchObject({ retry: 2, stop: 1 });
    await tester.assertFailed(id, "gave up");
    await tester.assertFailed(id, /^gave/);
    await expect(tester.assertFailed(id, "no luck")).rejects.toThrow('"gave up"');
  });

  test("TST-05: scheduled work runs unless the test leaves it alone", async () => {
    const { id } = await client().insert(counter, { state: { target: 0 }, delayMs: 60_000, ...tx() });
    expect(await tester.drain({ scheduled: false })).toMatchObject({ steps: 0 });
    await tester.assertStatus(id, "runnable");
    expect(await tester.drain()).toMatchObject({ steps: 1, done: 1 });
  });

  test("TST-07: deadlines fire when the test says so", async () => {
    const { id } = await client().insert(awaiter, { state: { timeoutMs: 300 }, ...tx() });
    await tester.drain();
    expect(await tester.fireTimeouts()).toBe(1);
    await tester.drain();
    await tester.assertDone(id, "timed out");
  });

  test("TST-08: a machine that loops ends the drain with an error that names maxSteps", async () => {
    await client().insert(counter, { state: { target: 50 }, ...tx() });
    await expect(tester.drain({ maxSteps: 5 })).rejects.toThrow("maxSteps (5)");
  });

  test("TST-10, TST-14: a drain admits what limits hold back, and refills rates as it skips time", async () => {
    await session.query(
      `INSERT INTO gen_durable_bucket_configs (kind, name, rate, capacity) VALUES ('conc', 'one', NULL, 1), ('rate', 'two', 0.001, 2)
       ON CONFLICT DO NOTHING`,
    );
    const rows = [
      ...[1, 2].map(() => ({ state: { target: 0 }, concurrencyKey: "one" })),
      ...[1, 2].map(() => ({ state: { target: 1 }, concurrencyKey: ["account", 7] as const })),
      ...[1, 2, 3, 4, 5].map(() => ({ state: { target: 0 }, rateLimit: ["two", "t"] as const, weight: 2 })),
    ];
    for (const row of rows) await client().insert(counter, { ...row, ...tx() });
    expect(await tester.drain()).toMatchObject({ steps: 11, done: 9 });
    const left = await session.query("SELECT available FROM gen_durable_buckets WHERE kind = 'conc'");
    expect(left.rows).toEqual([{ available: 1 }]);
  });

  test("a parent joins its children within one drain", async () => {
    const { id } = await client().insert(parent, { state: { kids: 3 }, ...tx() });
    expect(await tester.drain()).toMatchObject({ children: 1, done: 4 });
    await tester.assertDone(id, [{ count: 0 }, { count: 1 }, { count: 2 }]);
  });

  test("a job is retried with its backoff collapsed", async () => {
    const { id } = await client().insert(flaky, { state: { until: 2 }, ...tx() });
    expect(await tester.drain()).toMatchObject({ steps: 3, retry: 2, done: 1 });
    await tester.assertDone(id, { attempt: 2 });
  });

  test("TST-11: assertions say what is there instead", async () => {
    await expect(tester.assertDone(99)).rejects.toThrow("there is no instance 99");
    const { id } = await client().insert(crasher, { state: {}, ...tx() });
    await expect(tester.assertDone(id)).rejects.toThrow(/but it is runnable \(step "start", attempt 0\)/);
    await tester.drain();
    await expect(tester.assertDone(id)).rejects.toThrow(
      /failed \(step "start", attempt 2, last error: gave up\)/,
    );
  });
});
