// Swarm of keys: many exclusive keys over two nodes with two queues each, so four pickers; every key has rows in both queues, so that
// heads of one key are met by two pickers. Judged by the steps' own entries, stamped by the database.

import { pokeChannel } from "#core/poke.js";
import { createAudit } from "../support/audit.js";
import type { TestDatabase } from "../support/database.js";
import { FAR_POLLS, startNode } from "../support/node.js";
import { until } from "../support/until.js";

const QUEUES = ["default", "other"];

export interface Swarmed {
  /** Steps by their own entries. */
  steps: number;
  /** Pairs of steps of one key whose intervals overlap. */
  overlaps: unknown[];
  /** Steps that were entered more than once. */
  repeated: unknown[];
  picks: number;
  /** Picks that lost a race and began anew. */
  contended: number;
  deadlocks: string[];
}

/** Runs five steps under each of so many keys: two instances a key, one in each queue, of three steps and of two. */
export async function swarmKeys(database: TestDatabase, keys: number, timeoutMs: number): Promise<Swarmed> {
  await createAudit(database);
  const nodes = await Promise.all(
    [1, 2].map(() =>
      startNode({
        database,
        fsms: ["limited"],
        flags: ["--port", "0"],
        config: {
          ...FAR_POLLS,
          queues: Object.fromEntries(QUEUES.map((queue) => [queue, 25])),
          leaseTtlMs: 60_000,
          heartbeatIntervalMs: 5_000,
        },
      }),
    ),
  );
  await database.query(
    `INSERT INTO gen_durable (fsm, step, queue, state, concurrency_key)
     SELECT 'steps', 'step', ($2::text[])[1 + q], jsonb_build_object('left', 3 - q, 'ms', 1), 'key:' || n
       FROM generate_series(1, $1) n, generate_series(0, 1) q`,
    [keys, QUEUES],
  );
  for (const queue of QUEUES)
    await database.query("SELECT pg_notify($1, $2)", [pokeChannel("gen_durable"), queue]);
  await until(
    async () => (await database.query("SELECT FROM gen_durable WHERE status <> 'done' LIMIT 1")).length === 0,
    { timeoutMs, everyMs: 200, describe: "every key is through" },
  );
  const counters = await Promise.all(
    nodes.map(async (node) => {
      const { msg } = await node.logged("health is served on");
      const metrics = await (await fetch(`${msg.slice(msg.indexOf("http"))}/metrics`)).text();
      const read = (name: string) =>
        Number(new RegExp(`^gen_durable_${name}_total (\\d+)`, "m").exec(metrics)?.[1] ?? 0);
      return { picks: read("picks"), contended: read("claims_contended") };
    }),
  );
  await Promise.all(nodes.map((node) => node.stop()));
  const { n: steps } = await database.one<{ n: number }>("SELECT count(*) AS n FROM public.test_audit");
  return {
    steps,
    overlaps: await database.query(`
      SELECT * FROM (
        SELECT g.concurrency_key AS key, a.n, a.entered_at,
               max(a.left_at) OVER (PARTITION BY g.concurrency_key ORDER BY a.entered_at, a.n
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_left_at
          FROM public.test_audit a JOIN gen_durable g ON g.id = a.instance) a
       WHERE a.entered_at < a.before_left_at`),
    repeated: await database.query("SELECT instance FROM public.test_audit WHERE attempt > 0"),
    picks: counters.reduce((sum, { picks }) => sum + picks, 0),
    contended: counters.reduce((sum, { contended }) => sum + contended, 0),
    deadlocks: database.log().filter((line) => line.includes("deadlock")),
  };
}
