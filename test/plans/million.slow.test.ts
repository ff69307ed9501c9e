// A million rows, 700,000 of them ended: no hot statement reads the table or the whole executing set, at batch 1, 100 and 1,000, whatever
// the planner knows: statistics of a table that was nearly empty, none, and fresh ones; planned by its values or for all values; and with
// plans that were made over the nearly empty table and kept.
import { expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { keepPlans, measurePlans } from "./measure.js";
import { fillTable } from "./table.js";

const ROWS = Number(process.env.GEN_DURABLE_PLAN_ROWS ?? 1_000_000);
const BATCHES = [1, 100, 1_000];

const database = await createDatabase();

test("no hot statement's cost depends on the table", async () => {
  await database.query(`
    ALTER TABLE gen_durable SET (autovacuum_enabled = off);
    ALTER TABLE signals SET (autovacuum_enabled = off);
    INSERT INTO gen_durable (fsm, step) SELECT 'plain', 'start' FROM generate_series(1, 20);
    INSERT INTO signals (target_id, name, payload) SELECT id, 'go', '{}' FROM gen_durable`);
  await database.query("VACUUM ANALYZE");
  const measureKept = await keepPlans(database);
  await database.query("DELETE FROM gen_durable");
  await fillTable(database, ROWS);
  const broken = await measureKept({
    rows: ROWS,
    batches: BATCHES,
    knowledge: "a plan from when the table was small",
  });
  broken.push(
    ...(await measurePlans(database, {
      rows: ROWS,
      batches: BATCHES,
      knowledge: "stale statistics",
    })),
  );

  await database.query(`
    DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'gen_durable'::regnamespace);
    UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0
     WHERE relnamespace = 'gen_durable'::regnamespace AND relkind IN ('r', 'i')`);
  broken.push(
    ...(await measurePlans(database, { rows: ROWS, batches: BATCHES, knowledge: "no statistics" })),
  );

  await database.query("VACUUM ANALYZE");
  broken.push(
    ...(await measurePlans(database, { rows: ROWS, batches: BATCHES, knowledge: "fresh statistics" })),
  );
  expect(broken).toEqual([]);
}, 900_000);
