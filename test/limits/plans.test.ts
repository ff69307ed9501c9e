// Plans of the statements of a pick under limits, as the picker's session makes them: generic, at 1, 100 and 1000 rows or keys, with
// missing, stale and fresh statistics. They read the tables by their indexes, and what they look at grows with the batch.
import { expect, test } from "@jest/globals";
import { pickTransaction } from "#coordinator/claimLimited.js";
import { createDatabase } from "../support/database.js";
import { configure, statements } from "./rig.js";

const database = await createDatabase();

interface PlanNode {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "CTE Name"?: string;
  "Actual Rows"?: number;
  "Actual Loops"?: number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Join Filter"?: number;
  Plans?: PlanNode[];
}

/** Rows that a pick looks at beside those it wants. */
const SPARE = 200;

const TYPES = {
  "picker/lock_candidates":
    "text, int, int, text[], int[], int[], timestamptz[], bigint[], timestamptz, float8, text[], text[], text[], bigint[]",
  "picker/claim_plenty":
    "text, int, text, float8, text[], int[], int[], timestamptz[], bigint[], timestamptz, float8, bigint[]",
  "picker/claim_admitted": "bigint[], int[], text, float8",
  "limiter/lock_buckets": "text[], text[], float8, int[]",
  "limiter/write_buckets": "text[], text[], int[], float8[], float8[], float8[], boolean[]",
  "limiter/debit_slots": "text[], int[], float8[], float8[]",
  "flusher/credit_slots": "text[], int[], float8[]",
  "limiter/lock_gates": "text, int",
  "limiter/heal_gates": "text[]",
  "limiter/sweep_rates": "text, int",
} as const;
type Name = keyof typeof TYPES;
/** Not in the transaction of a pick: under what the session has been told. */
const ALONE = new Set<Name>([
  "picker/claim_plenty",
  "limiter/lock_gates",
  "limiter/heal_gates",
  "limiter/sweep_rates",
]);

/** What each is executed with, for a batch of so many. SQL of the arguments. */
const ARGUMENTS: Record<string, { name: Name; of: (count: number) => string }> = {
  "a window of all kinds of rows": { name: "picker/lock_candidates", of: (n) => candidates(n, "'{}'") },
  "probes of exclusive keys": { name: "picker/lock_candidates", of: (n) => candidates(n, list(n, "acct:")) },
  "probes of gates": {
    name: "picker/lock_candidates",
    of: (n) => candidates(n, list(Math.min(n, 100), "gate:")),
  },
  "a claim with plenty": {
    name: "picker/claim_plenty",
    of: (n) => `'plenty', ${n}, 'n/1', 60000, '{plain}', '{1}', '{}', '{}', '{}', NULL, 16000000, '{}'`,
  },
  "the claim of admitted rows": {
    name: "picker/claim_admitted",
    of: (n) => `${array(n, (id) => id)}, ${array(n, () => "0")}, 'n/1', 60000`,
  },
  "counters of gates": {
    name: "limiter/lock_buckets",
    of: (n) => `${array(n, () => "conc")}, ${list(n, "gate:")}, 0, ${array(n, () => "0")}`,
  },
  "counters of gates with plenty": {
    name: "limiter/lock_buckets",
    of: (n) => `${array(n, () => "conc")}, ${list(n, "gate:")}, 0, ${array(n, () => "1")}`,
  },
  "counters of rates": {
    name: "limiter/lock_buckets",
    of: (n) => `${array(n, () => "rate")}, ${list(n, "rate:")}, 0, ${array(n, () => "0")}`,
  },
  "what is left in counters": {
    name: "limiter/write_buckets",
    of: (n) =>
      `${array(n, () => "conc")}, ${list(n, "gate:")}, ${array(n, () => "0")}, ${array(n, () => "10")}, ${array(n, () => "9")}, ${array(n, () => "0")}, ${array(n, () => "false")}`,
  },
  "slots that were promised": {
    name: "limiter/debit_slots",
    of: (n) => `${list(n, "gate:")}, ${array(n, () => "0")}, ${array(n, () => "1")}, ${array(n, () => "10")}`,
  },
  "a sweep's gates": { name: "limiter/lock_gates", of: (n) => `'', ${n}` },
  "a sweep's rates": { name: "limiter/sweep_rates", of: (n) => `'', ${n}` },
  "slots that come back": {
    name: "flusher/credit_slots",
    of: (n) => `${list(n, "gate:")}, ${array(n, () => "0")}, ${array(n, () => "1")}`,
  },
};

/** The literal of an array of so many. */
function array(count: number, value: (n: number) => string | number): string {
  return `'{${Array.from({ length: count }, (_, n) => value(n + 1)).join(",")}}'`;
}

function list(count: number, prefix: string): string {
  return array(count, (n) => `${prefix}${n}`);
}

function candidates(count: number, probes: string): string {
  return `'default', ${count}, ${count + SPARE}, '{plain}', '{1}', '{}', '{}', '{}', NULL, 16000000, '{}', '{}', ${probes}, '{}'`;
}

async function fill(): Promise<void> {
  await configure(database, {
    gate: { limit: 10 },
    rate: { limit: 10, rate: 1 },
    vast: { limit: 10 },
    flow: { limit: 10, rate: 1 },
  });
  await database.query(`
    ALTER TABLE gen_durable SET (autovacuum_enabled = off);
    ALTER TABLE gen_durable_buckets SET (autovacuum_enabled = off);
    INSERT INTO gen_durable (fsm, step, concurrency_key, rate_limit)
      SELECT 'plain', 'start', (ARRAY['acct:' || n, 'gate:' || n % 50, NULL])[1 + n % 3], (ARRAY['rate:' || n % 50, NULL])[1 + n % 2]
        FROM generate_series(1, 6000) n;
    INSERT INTO gen_durable (fsm, step, queue, concurrency_key, rate_limit)
      SELECT 'plain', 'start', 'plenty', 'vast:' || n % 1000, 'flow:' || n % 1000 FROM generate_series(1, 3000) n;
    INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at, concurrency_key)
      SELECT 'plain', 'start', 'executing', 'x/1', now() + interval '1 day', 'busy:' || n FROM generate_series(1, 3000) n;
    INSERT INTO gen_durable (fsm, step, status, locked_by, lease_expires_at, concurrency_key, concurrency_shard)
      SELECT 'plain', 'start', 'executing', 'x/1', now() + interval '1 day', 'vast:' || n, 0 FROM generate_series(0, ${HELD - 1}) n;
    INSERT INTO gen_durable (fsm, step, status, concurrency_key) SELECT 'plain', 'start', 'done', 'acct:1' FROM generate_series(1, 4000);
    INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available, last_refill)
      SELECT 'conc', 'gate:' || n, 0, 10, 9, NULL FROM generate_series(1, 5000) n
      UNION ALL SELECT 'rate', 'rate:' || n, 0, 10, 9, now() FROM generate_series(1, 5000) n
      UNION ALL SELECT 'conc', 'vast:' || n, 0, 10, 9, NULL FROM generate_series(0, 999) n
      UNION ALL SELECT 'rate', 'flow:' || n, 0, 10, 9, now() FROM generate_series(0, 999) n`);
}

/** A session as the picker's own; every statement prepared while the tables are as they are now. */
async function preparedSession() {
  const session = await database.session();
  await session.query(statements.get("node/pin_plans").text);
  await session.query("SET plan_cache_mode = force_generic_plan");
  for (const [name, types] of Object.entries(TYPES)) {
    await session.query(
      `PREPARE ${name.replace("/", "_")} (${types}) AS ${statements.get(name as Name).text}`,
    );
  }
  return session;
}
type Session = Awaited<ReturnType<typeof preparedSession>>;

async function nodesOf(session: Session, name: Name, args: string): Promise<PlanNode[]> {
  await session.query(ALONE.has(name) ? "BEGIN" : pickTransaction(true).begin);
  const { rows } = await session.query(
    `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE ${name.replace("/", "_")} (${args})`,
  );
  await session.query("ROLLBACK");
  const flat = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flat)];
  return flat(rows[0]["QUERY PLAN"][0].Plan);
}

/** Rows that a node has gone through in all. */
function lookedAt(node: PlanNode): number {
  const each =
    (node["Actual Rows"] ?? 0) +
    (node["Rows Removed by Filter"] ?? 0) +
    (node["Rows Removed by Join Filter"] ?? 0);
  return each * (node["Actual Loops"] ?? 0);
}

async function expectByIndex(session: Session): Promise<void> {
  for (const [what, { name, of }] of Object.entries(ARGUMENTS)) {
    for (const count of [1, 100, 1_000]) {
      const nodes = await nodesOf(session, name, of(count));
      const tables = nodes.filter((node) => /^gen_durable(_buckets)?$/.test(node["Relation Name"] ?? ""));
      expect({ what, count, scans: tables.filter((node) => node["Node Type"] === "Seq Scan") }).toEqual({
        what,
        count,
        scans: [],
      });
      expect(nodes.map((node) => node["Index Name"])).not.toContain("gen_durable_lease");
      // Lists are gone through a few times, never once an entry.
      const most = Math.max(...nodes.map(lookedAt));
      expect({ what, count, most: most <= 4 * (count + SPARE) + 50 ? "few" : most }).toEqual({
        what,
        count,
        most: "few",
      });
    }
  }
}

/** The rows that execute under gates, all of which are counted once. */
const HELD = 1_000;

async function expectHealed(session: Session): Promise<void> {
  for (const count of [1, 100, 500]) {
    const nodes = await nodesOf(session, "limiter/heal_gates", list(count, "vast:"));
    const tables = nodes.filter((node) => /^gen_durable(_buckets)?$/.test(node["Relation Name"] ?? ""));
    expect(tables.filter((node) => node["Node Type"] === "Seq Scan")).toEqual([]);
    const executing = tables.filter((node) => node["Relation Name"] === "gen_durable");
    expect(executing.map((node) => [node["Index Name"], node["Actual Loops"]])).toEqual([
      ["gen_durable_lease", 1],
    ]);
    const most = Math.max(...nodes.filter((node) => !executing.includes(node)).map(lookedAt));
    expect({ count, most: most <= 4 * count + 2 * HELD ? "few" : most }).toEqual({ count, most: "few" });
  }
}

test("by index alone, however large the batch, whatever the planner knew when it planned", async () => {
  const whileEmpty = await preparedSession();
  for (const { name, of } of Object.values(ARGUMENTS)) await nodesOf(whileEmpty, name, of(1));
  await fill();
  await expectByIndex(whileEmpty);
  await expectHealed(whileEmpty);
  await expectByIndex(await preparedSession());
  await database.query("ANALYZE gen_durable, gen_durable_buckets, gen_durable_bucket_configs, signals");
  await expectByIndex(await preparedSession());
  await expectHealed(await preparedSession());
});
