// How many statements a flush takes, and how Postgres runs them.
import { beforeAll, beforeEach, describe, expect, test } from "@jest/globals";
import { Connection } from "#core/database/connection.js";
import { Statements } from "#core/database/statements.js";
import { ownTransaction, type Session } from "#flusher/env.js";
import { flush } from "#flusher/flush.js";
import { createDatabase } from "../support/database.js";
import {
  awaits,
  CLAIM,
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
import { insertRow } from "../support/rows.js";

const database = await createDatabase();
const connection = await flusherConnection(database);
const env = flushEnv();

describe("statement counts", () => {
  beforeEach(() => database.query("TRUNCATE gen_durable, signals, gen_durable_buckets"));

  /** One row an id, all alike, as one statement. */
  const rows = async (count: number, set = "") => {
    const inserted = await database.query<{ id: number }>(
      `INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at) SELECT 'plain', 'start', 'executing', $1, now() + interval '1 minute' FROM generate_series(1, $2) RETURNING id`,
      [CLAIM, count],
    );
    if (set !== "") await database.query(`UPDATE gen_durable SET ${set}`);
    return inserted.map((row) => row.id);
  };

  test.each([
    [3, ["apply_outcomes"]],
    [30, ["apply_outcomes"]],
    [300, ["apply_next", "apply_done", "apply_outcomes"]],
  ])(
    "STM-04: without riders %i outcomes take begin, lock, update (one more for each kind of plain move with many), commit",
    async (count, updates) => {
      const ids = await rows(count);
      const decisions = [next("b"), retry(), done(), stop("x"), awaits(["go"])];
      const recording = recorded(connection);
      await flush(
        recording,
        ids.map((id, i) => outcomeOf(id, decisions[i % 5] ?? done())),
        env,
      );
      expect(recording.sent).toEqual(["BEGIN", "lock_batch", ...updates, "COMMIT"]);
    },
  );

  test.each([3, 200])("STM-05: %i fan-outs add one statement", async (count) => {
    const ids = await rows(count);
    const recording = recorded(connection);
    await flush(
      recording,
      ids.map((id) => outcomeOf(id, children([{}, {}]))),
      env,
    );
    expect(recording.sent).toEqual(["BEGIN", "lock_batch", "insert_children", "apply_outcomes", "COMMIT"]);
  });

  test.each([3, 100])("STM-05: with every rider at once %i families take a bounded number", async (count) => {
    await database.query(
      "INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available) VALUES ('conc', 'g', 0, 1000, 0)",
    );
    const ids = await rows(count, "concurrency_key = 'g', concurrency_shard = 0");
    await database.query("INSERT INTO signals (target_id, name) SELECT id, 'go' FROM gen_durable");
    const outcomes = [];
    for (const id of ids) {
      const parentId = await insertRow(database, {
        status: "awaiting_children",
        children_pending: 1,
        visit: 2,
      });
      outcomes.push(outcomeOf(id, done(), { parentId, parentVisit: 2 }));
    }
    const recording = recorded(connection);
    await flush(recording, outcomes, env);
    expect(recording.sent).toEqual([
      "BEGIN",
      "lock_batch",
      "apply_done",
      "consume_signals",
      "join_parents",
      "credit_slots",
      "COMMIT",
    ]);
  });
});

test("STM-08: behind a transaction pooler nothing is prepared, and each transaction states its settings", async () => {
  const bare = await Connection.open(database.settings({ prepare: false }), { role: "flusher test" });
  const seen: unknown[] = [];
  const session: Session = {
    command: (text) => bare.command(text),
    run: async (statement, values) => {
      seen.push(
        ...(await bare.run({
          name: "",
          text: "SELECT current_setting('lock_timeout') AS wait, current_setting('enable_seqscan') AS scan",
        })),
      );
      return bare.run(statement, values);
    },
  };
  const [id = 0] = await executingRows(database, 1);
  const result = await flush(session, [outcomeOf(id, done())], {
    ...env,
    transaction: ownTransaction(false),
  });
  const left = await bare.run({
    name: "",
    text: "SELECT current_setting('lock_timeout') AS wait FROM pg_prepared_statements",
  });
  await bare.close();
  expect(result.committed).toHaveLength(1);
  expect(seen).toEqual([
    { wait: "100ms", scan: "off" },
    { wait: "100ms", scan: "off" },
  ]);
  expect(left).toEqual([]);
});

describe("plans over 50,000 other executing rows", () => {
  const EXPLAINED = [
    "lock_batch",
    "apply_outcomes",
    "apply_done",
    "apply_next",
    "apply_inline",
    "join_parents",
    "lock_lost",
    "return_lost",
    "find_unlocked",
  ];

  beforeAll(async () => {
    await database.query("ALTER TABLE gen_durable SET (autovacuum_enabled = false)");
    for (const name of EXPLAINED) {
      const { text } = new Statements("gen_durable").get(`flusher/${name}`);
      await connection.command(`PREPARE plan_${name} AS ${text}`);
    }
  });

  /** Fills the table so that the planner knows nothing of it, believes that it is empty, or knows it. */
  async function fill(statistics: "missing" | "stale" | "fresh" | "small"): Promise<void> {
    await database.query("TRUNCATE gen_durable, signals");
    if (statistics === "small") await database.query("VACUUM ANALYZE gen_durable");
    await database.query("DELETE FROM pg_statistic WHERE starelid = 'gen_durable'::regclass");
    if (statistics === "stale") await database.query("ANALYZE gen_durable");
    // A plan that is made over a table known to be small is kept while the table grows.
    if (statistics === "small") return;
    await database.query(
      `INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at)
       SELECT 'x', 'y', 'executing', 'other/1', now() FROM generate_series(1, 50000)`,
    );
    if (statistics === "fresh") await database.query("ANALYZE gen_durable");
  }

  test.each(["missing", "stale", "fresh", "small"] as const)(
    "rows are reached by their key alone, at batch 1, 100 and 1000, with %s statistics",
    async (statistics) => {
      await fill(statistics);
      for (const mode of ["force_generic_plan", "force_custom_plan"]) {
        await connection.command(`SET plan_cache_mode = ${mode}`);
        for (const batch of [1, 100, 1000]) {
          for (const name of EXPLAINED) {
            const plan = await explain(name, batch);
            const where = `${name}, batch ${batch}, ${mode}, statistics ${statistics}:\n${plan}`;
            const scans = plan.match(/\S+ Scan( using \S+)? on gen_durable\b/g) ?? [];
            expect([where, scans.length > 0]).toEqual([where, true]);
            expect([
              where,
              scans.filter((scan) => !/using gen_durable_(pkey|correlation)/.test(scan)),
            ]).toEqual([where, []]);
            // Each by its id: a nested loop over the whole table has no condition.
            const byId =
              plan.match(/using gen_durable_pkey on gen_durable.*\n +Index Cond: \(\(?id = /g) ?? [];
            expect([where, byId.length]).toEqual([where, scans.filter((scan) => /pkey/.test(scan)).length]);
            expect([where, /Hash Join|Merge Join|Seq Scan|Bitmap/.test(plan)]).toEqual([where, false]);
          }
        }
      }
    },
  );

  async function explain(name: string, batch: number): Promise<string> {
    const values = valuesOf(name, batch).join(", ");
    const rows = await connection.run<{ "QUERY PLAN": string }>({
      name: "",
      text: `EXPLAIN (COSTS OFF) EXECUTE plan_${name}(${values})`,
    });
    return rows.map((row) => row["QUERY PLAN"]).join("\n");
  }

  /** Literals of a batch of so many rows. */
  function valuesOf(name: string, batch: number): string[] {
    const each = (type: string, value: (i: number) => unknown) =>
      `'{${Array.from({ length: batch }, (_, i) => value(i + 1)).join(",")}}'::${type}[]`;
    const none = (type: string) => `'{}'::${type}[]`;
    const ids = each("bigint", (i) => i);
    const claims = each("text", () => CLAIM);
    const ones = each("int", () => 1);
    const texts = none("text");
    const floats = none("float8");
    switch (name) {
      case "lock_batch":
      case "find_unlocked":
        return [ids];
      case "lock_lost":
        return [ids, claims];
      case "return_lost":
        return [ids, claims, none("boolean"), "NULL"];
      case "apply_done":
      case "apply_next":
        return [ids, claims, "'{}'", "NULL"];
      case "apply_inline":
        return [ids, claims, "'{}'", "60000", "NULL"];
      case "join_parents":
        return [ids, ones, ones, "NULL", "false"];
      default: {
        const kinds = each("text", () => "next");
        const what = [
          kinds,
          ones,
          texts,
          texts,
          texts,
          texts,
          floats,
          floats,
          texts,
          floats,
          texts,
          none("boolean"),
        ];
        return [ids, claims, ones, ...what, texts, texts, none("int"), "60000", "NULL"];
      }
    }
  }
});
