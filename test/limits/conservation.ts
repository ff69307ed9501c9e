// Conservation: many pickers of two nodes over hot, cold, sharded and partitioned keys, with nodes that die. Counted by the
// database, not by the limiter: never more than the limit, nothing lost, every counter back at its capacity.

import { LimitedSearch } from "#coordinator/limiter/search.js";
import { reconcileGates, sweepRates } from "#coordinator/limiter/sweep.js";
import { reapRows } from "#coordinator/reap.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import type { TestDatabase } from "../support/database.js";
import { done, next, retry } from "../support/outcomes.js";
import { configure, gateErrors, pickRows, readBuckets, settle, statements } from "./rig.js";

const PICKERS = 8;
/** Between two looks at what executes. */
const WATCH_MS = 5;
/** A picker that found nothing looks again after this. */
const DRY_MS = 3;
const GATES: Record<string, { limit: number; shards?: number }> = {
  hot: { limit: 5 },
  wide: { limit: 20, shards: 4 },
  parts: { limit: 2 },
  // Never full: its counters are debited at the end of the picks.
  vast: { limit: 400, shards: 2 },
};

export interface Conserved {
  steps: number;
  /** Gates of which more executed than their limit, by a snapshot of the database. */
  exceeded: unknown[];
  /** Rate keys that started more than their burst. */
  overdrawn: unknown[];
  errors: unknown[];
  unfinished: number;
  unfull: unknown[];
  deadlocks: string[];
  contended: number;
}

/** Runs at least `steps` steps. `random` gives numbers from 0 to 1. */
export async function conserve(
  database: TestDatabase,
  steps: number,
  random: () => number,
): Promise<Conserved> {
  await configure(database, {
    ...GATES,
    still: { limit: 5, rate: 0, shards: 2 },
    fast: { limit: 50, rate: 5_000 },
  });
  const rows = Math.ceil(steps / 2);
  await database.query(
    `INSERT INTO gen_durable (fsm, step, concurrency_key, rate_limit)
     SELECT 'plain', 'start',
            (ARRAY['hot', 'wide', 'parts:' || n % 7, 'solo:' || n % 10, 'cold:' || n, 'acct:' || n % 20, 'vast:' || n % 2, NULL])[1 + n % 8],
            CASE WHEN n % 3 = 0 THEN 'fast:' || n % 2 END
       FROM generate_series(1, $1) n`,
    [rows],
  );
  await database.query(
    "INSERT INTO gen_durable (fsm, step, rate_limit) SELECT 'plain', 'start', 'still:' || n % 5 FROM generate_series(1, 50) n",
  );
  const result: Conserved = {
    steps: 0,
    exceeded: [],
    overdrawn: [],
    errors: [],
    unfinished: 0,
    unfull: [],
    deadlocks: [],
    contended: 0,
  };
  const searches: LimitedSearch[] = [];
  let boots = 0;
  const left = async () =>
    (
      await database.one<{ n: number }>(
        "SELECT count(*) AS n FROM gen_durable WHERE status <> 'done' AND (rate_limit IS NULL OR rate_limit NOT LIKE 'still%')",
      )
    ).n;
  const heldBy = async (boot: string) =>
    (
      await database.one<{ n: number }>(
        "SELECT count(*) AS n FROM gen_durable WHERE status = 'executing' AND locked_by LIKE $1 || '/%'",
        [boot],
      )
    ).n;
  let isOver = false;

  const watch = async () => {
    while (!isOver) {
      result.exceeded.push(
        ...(await database.query(
          `SELECT g.concurrency_key AS key, count(*) AS n FROM gen_durable g
           LEFT JOIN gen_durable_bucket_configs c ON c.kind = 'conc' AND c.name = g.concurrency_name
           WHERE g.status = 'executing' AND g.concurrency_key IS NOT NULL
           GROUP BY 1 HAVING count(*) > coalesce(max(c.capacity), 1)`,
        )),
      );
      isOver = (await left()) === 0;
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
    }
  };

  const work = async (node: number) => {
    const connection = await database.connection();
    const reaper = await database.connection();
    const search = new LimitedSearch(performance.now());
    searches.push(search);
    let boot = `${node}-${++boots}`;
    let picks = 0;
    while (!isOver) {
      const step = search.begin(1 + Math.floor(random() * 30), performance.now());
      const claim = await pickRows(
        connection,
        { ...step, claim: `${boot}/${++picks}` },
        () => result.contended++,
      );
      const isDry = search.end(step, claim, performance.now());
      result.steps += claim.rows.length;
      if (random() < 0.02) {
        // The node dies with what it has claimed. A row that somebody has just locked goes back with a later sweep.
        do await reapRows(reaper, statements, { deadNodes: [boot], leaseTtlMs: 1_000 });
        while ((await heldBy(boot)) > 0);
        boot = `${node}-${++boots}`;
        for (const other of searches) other.poke();
        continue;
      }
      const outcomes = result.steps < steps ? [done(), next("start"), retry()] : [done()];
      const parts = outcomes.map((): ClaimedRow[] => []);
      for (const row of claim.rows) parts[Math.floor(random() * parts.length)]?.push(row);
      for (const [index, part] of parts.entries()) {
        const outcome = outcomes[index];
        if (outcome !== undefined) await settle(connection, part, outcome);
      }
      const keys = claim.keys.filter((key) => key !== null);
      for (const other of searches) {
        for (const key of keys) other.freed(key, performance.now());
        if (claim.rows.length > 0) other.poke();
      }
      if (isDry) await new Promise((resolve) => setTimeout(resolve, DRY_MS));
      if (random() < 0.02) await reconcileGates(reaper, statements);
      if (random() < 0.02) await sweepRates(reaper, statements);
    }
  };
  await Promise.all([watch(), ...Array.from({ length: PICKERS }, (_, n) => work(n % 2))]);

  result.errors = await gateErrors(database);
  result.unfinished = await left();
  result.unfull = (await readBuckets(database)).filter(
    ({ kind, available, capacity }) => kind === "conc" && available !== capacity,
  );
  result.overdrawn = await database.query(
    "SELECT key, sum(available) FROM gen_durable_buckets WHERE key LIKE 'still%' GROUP BY 1 HAVING sum(available) <> 0",
  );
  result.deadlocks = database.log().filter((line) => line.includes("deadlock"));
  return result;
}
