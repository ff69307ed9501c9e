// Table: a table of any size whose rows stand where rows of a long-lived system stand. Row n has the id n, so that what a statement
// is asked about can be named by arithmetic.

import type { TestDatabase } from "../support/database.js";

/** A stretch of the ids: where it begins and ends, as shares of the table. */
export const SECTIONS = {
  ended: [0, 0.7],
  runnable: [0.7, 0.85],
  limited: [0.85, 0.88],
  sleeping: [0.88, 0.9],
  executing: [0.9, 0.95],
  parked: [0.95, 0.97],
  parents: [0.97, 0.985],
  children: [0.985, 1],
} as const;

export type Section = keyof typeof SECTIONS;

export const CLAIM = "node/1";

/** So many ids of a section, spread over all of it. @throws when it holds fewer. */
export function idsOf(rows: number, section: Section, count: number, from = 0): number[] {
  const [begin, end] = SECTIONS[section].map((share) => Math.round(share * rows)) as [number, number];
  const first = begin + Math.floor((end - begin) * from);
  const step = Math.floor((end - first) / count);
  if (step === 0) throw new Error(`${section} holds fewer than ${count} rows`);
  return Array.from({ length: count }, (_, n) => first + 1 + n * step);
}

const COLUMNS =
  "id, fsm, step, queue, status, priority, eligible_at, locked_by, lease_expires_at, visit, concurrency_key, rate_limit, awaits, await_deadline, correlation_key, correlation_scope, parent_id, parent_visit, children_pending, result, updated_at";

/** Each section's rows as SQL over n, the id, in the order of COLUMNS after it. */
const ROWS: Record<Section, string> = {
  ended: `CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'done' END::durable_status, 0, now() - interval '2 days', NULL, NULL, 2, NULL, NULL,
    '{}', NULL, CASE WHEN n % 5 = 0 THEN 'ended:' || n END, '{runnable,executing}', NULL, NULL, 0, '{"ok":true}', now() - (:ended - n) * interval '1 second'`,
  runnable: `'runnable', (n % 3)::int, now() - interval '1 hour' + n * interval '1 ms', NULL, NULL, 1, NULL, NULL,
    '{}', NULL, NULL, '{}', NULL, NULL, 0, NULL, now()`,
  limited: `'runnable', 0, now() - interval '1 hour' + n * interval '1 ms', NULL, NULL, 1,
    CASE n % 4 WHEN 0 THEN 'account:' || n % 500 WHEN 1 THEN 'gate:' || n % 50 WHEN 2 THEN 'account:' || n END,
    CASE n % 4 WHEN 3 THEN 'rate:' || n % 20 END, '{}', NULL, NULL, '{}', NULL, NULL, 0, NULL, now()`,
  sleeping: `'runnable', -1, now() + interval '1 day' + n * interval '1 ms', NULL, NULL, 1, NULL, NULL,
    '{}', NULL, NULL, '{}', NULL, NULL, 0, NULL, now()`,
  executing: `'executing', 0, now() - interval '1 hour', '${CLAIM}', now() + interval '1 hour' - (n % 10 = 0)::int * interval '2 hours', 2, NULL, NULL,
    '{}', NULL, 'executing:' || n, '{executing,runnable}', NULL, NULL, 0, NULL, now()`,
  parked: `'awaiting_signal', 0, now() - interval '1 hour', NULL, NULL, 2, NULL, NULL,
    '{go}', now() + interval '1 hour' - (n % 4 = 0)::int * interval '2 hours', 'parked:' || n, '{awaiting_signal,runnable}', NULL, NULL, 0, NULL, now()`,
  parents: `'awaiting_children', 0, now() - interval '1 hour', NULL, NULL, 2, NULL, NULL,
    '{}', NULL, NULL, '{}', NULL, NULL, 1, NULL, now()`,
  children: `'runnable', 0, now() + interval '1 day', NULL, NULL, 1, NULL, NULL,
    '{}', NULL, NULL, '{}', :parents + n - :children, 2, 0, NULL, now()`,
};

const QUEUES: Record<Section, string> = {
  ended: "default",
  runnable: "default",
  limited: "limited",
  sleeping: "default",
  executing: "default",
  parked: "default",
  parents: "default",
  children: "children",
};

/** Fills the empty table, and gives every other executing row a signal. Statistics are the caller's. */
export async function fillTable(database: TestDatabase, rows: number): Promise<void> {
  const begin = (section: Section): number => Math.round(SECTIONS[section][0] * rows);
  for (const [section, [, endShare]] of Object.entries(SECTIONS) as [Section, readonly [number, number]][]) {
    const values = ROWS[section]
      .replaceAll(":parents", String(begin("parents")))
      .replaceAll(":ended", String(Math.round(SECTIONS.ended[1] * rows)))
      .replaceAll(":children", String(begin("children")));
    await database.query(
      `INSERT INTO gen_durable (${COLUMNS}) SELECT n, 'plain', 'start', '${QUEUES[section]}', ${values}
       FROM generate_series($1::bigint, $2::bigint) AS n`,
      [begin(section) + 1, Math.round(endShare * rows)],
    );
  }
  await database.query("SELECT setval(pg_get_serial_sequence('gen_durable', 'id'), $1)", [rows]);
  await database.query(
    "INSERT INTO signals (target_id, name, payload) SELECT id, 'go', '{}' FROM gen_durable WHERE status = 'executing' AND id % 2 = 0",
  );
  await database.query(
    "INSERT INTO signals (target_id, name, consumed_at, dedup_key) SELECT id, 'go', now(), 'once' FROM gen_durable WHERE status = 'done' AND id % 10 = 1",
  );
  await database.query(`
    INSERT INTO gen_durable_bucket_configs (kind, name, rate, capacity, shards) VALUES ('conc', 'gate', NULL, 100, 4), ('rate', 'rate', 1000000, 1000000, 1);
    INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available)
      SELECT 'conc', 'gate:' || k, s, 25, 25 FROM generate_series(0, 4999) AS k, generate_series(0, 3) AS s;
    INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available, last_refill)
      SELECT 'rate', 'rate:' || k, 0, 1000000, 1000000, now() FROM generate_series(0, 4999) AS k;
    INSERT INTO nodes (id, instance, hostname, boot_id, pid, version) SELECT 'n' || n, 'i', 'h', 'b', n, '1' FROM generate_series(1, 20) AS n`);
}
