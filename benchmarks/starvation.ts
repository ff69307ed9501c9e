// starvation: how soon an unrelated row starts that is inserted behind a deep backlog of one saturated limit, at the same priority;
// and what looking through that backlog would cost if its key were not left out.
// Machine:  printed; Postgres, node and caller share it. fsync and synchronous_commit are on.
// Settings: one node with the defaults and far polls. The gate admits one and is held by a row of nobody's; the rate has given its one
//           token of the day.
// Method:   for each limit: starts without a backlog, then the backlog, then starts behind it; an insert with its poke every 120 ms,
//           from the insert's call in this process to the step's beginning in the node, by the machine's clock. Then, over the same
//           backlog, picks of 20 rows from the front of the queue that leave no key out: with a picker's window, whether they
//           reach the unrelated row at all; with a window as deep as the backlog, what they cost.

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "gen-durable";
import { claimLimited, pickTransaction } from "#coordinator/claimLimited.js";
import { PostgresLimiter } from "#coordinator/limiter/postgresLimiter.js";
import { LimitedSearch } from "#coordinator/limiter/search.js";
import { Statements } from "#core/database/statements.js";
import type { TestDatabase } from "../test/support/database.js";
import { until } from "../test/support/until.js";
import type { Benchmark } from "./bench.js";
import { stamped } from "./fsms/bench.js";
import { median, quantile } from "./report.js";

const SPACING_MS = 120;
const PICK_ROWS = 20;
const PICKS = 20;
const nowMs = (): number => performance.timeOrigin + performance.now();

export const starvation: Benchmark = {
  name: "starvation",
  about: "unrelated rows behind a deep backlog of one saturated gate, and of one empty rate",
  options: { backlog: 10_000, inserts: 50, workers: 1 },
  async run(bench, options, report) {
    const { backlog = 0, inserts = 0, workers = 0 } = options;
    for (const kind of ["gate", "rate"] as const) {
      const database = await bench.createDatabase(`starvation_${kind}`);
      await database.query(
        `INSERT INTO gen_durable (fsm, step, queue, status, locked_by, lease_expires_at, concurrency_key, concurrency_shard)
           VALUES ('stamped', 'only', 'bench', 'executing', 'nobody/1', now() + interval '1 hour', 'full', 0)`,
      );
      await database.query(
        `INSERT INTO gen_durable_buckets (kind, key, shard, capacity, available, last_refill)
           VALUES ('conc', 'full', 0, 1, 0, NULL), ('rate', 'empty', 0, 1, 0, now())`,
      );
      const node = await bench.startNode(
        database,
        {
          queues: { bench: 10 },
          pollIntervalMs: 60_000,
          maxPollIntervalMs: 60_000,
          gc: false,
          concurrencyLimits: { full: { limit: 1 } },
          rateLimits: { empty: { allowed: 1, period: "1 day" } },
        },
        workers,
      );
      const client = createClient({ url: database.url });
      await measureStarts(client, database, inserts);
      const free = await measureStarts(client, database, inserts);
      await client.insertMany(
        stamped,
        Array.from({ length: backlog }, () => ({
          state: { n: 0 },
          ...(kind === "gate" ? { concurrencyKey: "full" } : { rateLimit: "empty" }),
        })),
      );
      const behind = await measureStarts(client, database, inserts);
      await client.close();
      await node.stop();
      report.figure(`${kind}_start_p50_free`, median(free), "ms without a backlog");
      report.check(`${kind}_start_p50`, median(behind), `ms behind ${backlog} rows`, "atMost", 100);
      report.figure(`${kind}_start_p99`, quantile(behind, 0.99), `ms behind ${backlog} rows`);

      await database.query("INSERT INTO gen_durable (fsm, step, queue) VALUES ('stamped', 'only', 'bench')");
      const near = await pickFromFront(
        database,
        new LimitedSearch(performance.now()).begin(PICK_ROWS, 0).windowRows,
      );
      report.figure(
        `${kind}_reached_without_leaving_out`,
        near.claimed,
        `rows claimed by ${near.picks} picks from the front`,
      );
      const far = await pickFromFront(database, backlog + 2 * PICKS);
      report.figure(`${kind}_pick_without_leaving_out`, far.ms, "ms a pick that looks through the backlog");
    }
  },
};

type Client = ReturnType<typeof createClient>;

/** Milliseconds from an insert's call to the step's beginning. */
async function measureStarts(client: Client, database: TestDatabase, count: number): Promise<number[]> {
  const startMs: number[] = [];
  for (let n = 0; n < count; n++) {
    const callMs = nowMs();
    const { id } = await client.insert(stamped, { state: { n } });
    const row = await until(
      async () =>
        (
          await database.query<{ at: number }>(
            "SELECT CAST(result->>'startedAtMs' AS float8) AS at FROM gen_durable WHERE id = $1 AND status = 'done'",
            [id],
          )
        ).at(0),
      { timeoutMs: 60_000, everyMs: 20, describe: `instance ${id} is done` },
    );
    startMs.push(row.at - callMs);
    await sleep(SPACING_MS);
  }
  return startMs;
}

/** Picks that look at so many rows from the front of the queue and leave no key out; they are undone. */
async function pickFromFront(
  database: TestDatabase,
  windowRows: number,
): Promise<{ picks: number; claimed: number; ms: number }> {
  const connection = await database.connection();
  const statements = new Statements("gen_durable");
  await connection.run(statements.get("node/pin_plans"));
  const limiter = new PostgresLimiter(statements);
  const transaction = { ...pickTransaction(true), commit: "ROLLBACK" };
  let claimed = 0;
  const times: number[] = [];
  for (let pick = 0; pick < PICKS; pick++) {
    const beganAtMs = performance.now();
    const claim = await claimLimited(
      connection,
      { statements, limiter, transaction },
      {
        queue: "bench",
        claim: `bench/${pick}`,
        rowsMax: PICK_ROWS,
        windowRows,
        leaseTtlMs: 60_000,
        known: { names: ["stamped"], versions: [1] },
        places: [],
        excluded: { keys: [], rates: [] },
        probes: [],
      },
    );
    times.push(performance.now() - beganAtMs);
    claimed += claim.rows.length;
  }
  return { picks: PICKS, claimed, ms: median(times) };
}
