// Rig: picks, outcomes and counters of one database, as plain modules over connections.

import { claimLimited, pickTransaction } from "#coordinator/claimLimited.js";
import type { LimitedClaim, LimitedRequest } from "#coordinator/limitedClaim.js";
import { PostgresLimiter } from "#coordinator/limiter/postgresLimiter.js";
import type { Connection } from "#core/database/connection.js";
import { Statements } from "#core/database/statements.js";
import type { Decision } from "#core/protocol/outcome.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import type { Session } from "#flusher/env.js";
import { flush } from "#flusher/flush.js";
import type { TestDatabase } from "../support/database.js";
import { flushEnv, outcomeOf } from "../support/outcomes.js";

export const statements = new Statements("gen_durable");
export const limiter = new PostgresLimiter(statements);

let picks = 0;

/** One pick. `onContended` counts lost races. */
export function pickRows(
  connection: Session,
  request: Partial<LimitedRequest> = {},
  onContended?: () => void,
): Promise<LimitedClaim> {
  return claimLimited(
    connection,
    {
      statements,
      limiter,
      transaction: pickTransaction(true),
      ...(onContended === undefined ? {} : { onContended }),
    },
    {
      queue: "default",
      claim: `node/${++picks}`,
      rowsMax: 100,
      windowRows: 1_000,
      leaseTtlMs: 60_000,
      known: { names: ["plain"], versions: [1] },
      places: [],
      excluded: { keys: [], rates: [] },
      probes: [],
      ...request,
    },
  );
}

/** Commits the same outcome of each claimed row; what is put off is tried again, as a flusher does. */
export async function settle(
  connection: Connection,
  rows: readonly ClaimedRow[],
  decision: Decision,
): Promise<void> {
  let outcomes = rows.map((row) =>
    outcomeOf(row.id, decision, { claim: row.claim, visit: row.visit, attempt: row.attempt }),
  );
  while (outcomes.length > 0) {
    const { deferred } = await flush(connection, outcomes, flushEnv());
    outcomes = deferred.map(({ outcome }) => outcome);
  }
}

export interface LimitSpec {
  limit: number;
  /** Tokens a second; absent: a gate. */
  rate?: number;
  shards?: number;
}

/** States limits, as a boot does. */
export async function configure(database: TestDatabase, limits: Record<string, LimitSpec>): Promise<void> {
  for (const [name, { limit, rate, shards = 1 }] of Object.entries(limits)) {
    await database.query(
      `INSERT INTO gen_durable_bucket_configs (kind, name, rate, capacity, shards) VALUES ($1, $2, $3, $4, $5)
       ON CONFLICT (kind, name) DO UPDATE SET rate = $3, capacity = $4, shards = $5`,
      [rate === undefined ? "conc" : "rate", name, rate ?? null, limit, shards],
    );
  }
}

export interface Bucket {
  kind: string;
  key: string;
  shard: number;
  capacity: number;
  available: number;
  debt: number;
}

/** The counters, in the order of their keys. */
export function readBuckets(database: TestDatabase, key?: string): Promise<Bucket[]> {
  return database.query<Bucket & Record<string, unknown>>(
    `SELECT kind, key, shard, capacity, available, debt FROM gen_durable_buckets
     WHERE $1::text IS NULL OR key = $1 ORDER BY kind, key, shard`,
    [key ?? null],
  );
}

/** What breaks the gates' account, seen by nobody's code but this: in use is what executes, shard by shard. */
export function gateErrors(database: TestDatabase): Promise<Record<string, unknown>[]> {
  return database.query(`
    WITH used AS (SELECT concurrency_key AS key, concurrency_shard AS shard, count(*) AS n FROM gen_durable
                  WHERE status = 'executing' AND concurrency_shard >= 0 GROUP BY 1, 2)
    SELECT coalesce(b.key, u.key) AS key, coalesce(b.shard, u.shard) AS shard, b.capacity, b.available, b.debt, u.n
    FROM (SELECT * FROM gen_durable_buckets WHERE kind = 'conc') b
    FULL JOIN used u ON u.key = b.key AND u.shard = b.shard
    WHERE b.capacity - b.available + b.debt IS DISTINCT FROM coalesce(u.n, 0)`);
}
