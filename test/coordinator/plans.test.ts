// Plans of the claim under generic plans: at batch 1, 100 and 1000, with missing, stale and fresh statistics, it reads the
// table by its indexes only, and never the executing set. And what it reads of rows that were taken before it.
import { expect, test } from "@jest/globals";
import { Statements } from "#core/database/statements.js";
import { createDatabase } from "../support/database.js";

const database = await createDatabase();
const statements = new Statements("gen_durable");

interface PlanNode {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Actual Rows"?: number;
  "Actual Loops"?: number;
  "Shared Hit Blocks"?: number;
  "Shared Read Blocks"?: number;
  Plans?: PlanNode[];
}

async function fill(): Promise<void> {
  await database.query(`
    ALTER TABLE gen_durable SET (autovacuum_enabled = off);
    ALTER TABLE signals SET (autovacuum_enabled = off);
    INSERT INTO gen_durable (fsm, step, eligible_at)
      SELECT 'plain', 'start', now() - interval '1 minute' FROM generate_series(1, 4000);
    INSERT INTO gen_durable (fsm, step, priority, eligible_at)
      SELECT 'plain', 'start', -1, now() + interval '1 day' FROM generate_series(1, 4000);
    INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at)
      SELECT 'plain', 'start', 'executing', 'x/1', now() + interval '1 day' FROM generate_series(1, 3000);
    INSERT INTO gen_durable (fsm, step, status) SELECT 'plain', 'start', 'done' FROM generate_series(1, 4000);`);
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

/** A session as the picker's own: pinned to the indexes; the statement prepared while the table is as it is now. */
async function preparedSession() {
  const session = await database.session();
  await session.query(statements.get("picker/state_session").text);
  await session.query(
    `PREPARE claim (text, int, text, float8, text[], int[], int[], timestamptz[], bigint[], timestamptz, float8, bigint[], float8) AS ${
      statements.get("picker/claim_runnable").text
    }`,
  );
  return session;
}

async function planOf(
  session: Awaited<ReturnType<typeof preparedSession>>,
  rowsMax: number,
): Promise<PlanNode> {
  await session.query("BEGIN");
  const { rows } = await session.query(
    `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON)
     EXECUTE claim ('default', ${rowsMax}, 'n/1', 60000, '{plain}', '{1}', '{}', '{}', '{}', NULL, 16000000, '{}', 0)`,
  );
  await session.query("ROLLBACK");
  const [{ Plan: plan }] = rows[0]["QUERY PLAN"];
  return plan;
}

function expectByIndex(plan: PlanNode, rowsMax: number): void {
  const nodes = nodesOf(plan);
  const reads = nodes.filter((node) => /Scan/.test(node["Node Type"]));
  const indexes = reads.map((node) => node["Index Name"]).filter((name) => name !== undefined);
  expect(nodes.filter((node) => node["Node Type"] === "Seq Scan")).toEqual([]);
  expect(indexes).not.toContain("gen_durable_lease");
  expect(indexes).not.toContain("gen_durable_concurrency_active");
  expect(indexes).toContain("gen_durable_pick");
  expect(indexes).toContain("gen_durable_pkey");
  // The loose scan reads a row a priority, and one past the last. A bitmap counts the dead versions, which the claims
  // that were rolled back here have left.
  for (const node of reads.filter((read) => read["Node Type"] !== "Bitmap Index Scan"))
    expect(node["Actual Rows"] ?? 0).toBeLessThanOrEqual(rowsMax + 3);
  // And the row that says what was found.
  expect(plan["Actual Rows"]).toBe(rowsMax + 1);
}

test("by index alone, however large the batch, whatever the planner knew when it planned", async () => {
  const whileEmpty = await preparedSession();
  await whileEmpty.query(
    "EXECUTE claim ('default', 1, 'n/1', 60000, '{plain}', '{1}', '{}', '{}', '{}', NULL, 16000000, '{}', 0)",
  );
  await fill();
  const unanalyzed = await preparedSession();
  for (const session of [whileEmpty, unanalyzed]) {
    for (const rowsMax of [1, 100, 1_000]) expectByIndex(await planOf(session, rowsMax), rowsMax);
  }
  await database.query("ANALYZE gen_durable, signals");
  const analyzed = await preparedSession();
  for (const rowsMax of [1, 100, 1_000]) expectByIndex(await planOf(analyzed, rowsMax), rowsMax);
});

test("a pick that begins a little before its place does not wade through what was taken before", async () => {
  const own = await createDatabase();
  await own.query(`
    ALTER TABLE gen_durable SET (autovacuum_enabled = off);
    INSERT INTO gen_durable (fsm, step, eligible_at)
      SELECT 'plain', 'start', now() - interval '1 hour' + n * interval '10 ms' FROM generate_series(1, 30000) n;
    UPDATE gen_durable SET status = 'done';
    INSERT INTO gen_durable (fsm, step) SELECT 'plain', 'start' FROM generate_series(1, 10);`);
  const session = await own.session();
  await session.query(statements.get("picker/state_session").text);
  const blocksRead = async (places: string): Promise<number> => {
    const text = statements.get("picker/claim_runnable").text;
    await session.query("BEGIN");
    await session.query(
      `PREPARE claim (text, int, text, float8, text[], int[], int[], timestamptz[], bigint[], timestamptz, float8, bigint[], float8) AS ${text}`,
    );
    const { rows } = await session.query(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
       EXECUTE claim ('default', 100, 'n/1', 60000, '{plain}', '{1}', ${places}, NULL, 16000000, '{}', 1000)`,
    );
    await session.query("ROLLBACK");
    await session.query("DEALLOCATE claim");
    const [{ Plan: plan }] = rows[0]["QUERY PLAN"];
    // And the row that says what was found.
    expect(plan["Actual Rows"]).toBe(11);
    return (plan["Shared Hit Blocks"] ?? 0) + (plan["Shared Read Blocks"] ?? 0);
  };
  // The first look marks the entries as dead; they stay where they are.
  await blocksRead("'{}', '{}', '{}'");
  const whole = await blocksRead("'{}', '{}', '{}'");
  const { at } = await own.one<{ at: string }>(
    "SELECT max(eligible_at)::text AS at FROM gen_durable WHERE status = 'done'",
  );
  const trail = await blocksRead(`'{0}', ARRAY['${at}'::timestamptz], '{30000}'`);
  expect(trail).toBeLessThan(whole / 2);
});
