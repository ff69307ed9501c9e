// Sides: the engine's own deeds, each on a connection of its own, for a test that holds one of them at a pause point.

import { claimRunnable } from "#coordinator/claim.js";
import { claimLimited, pickTransaction } from "#coordinator/claimLimited.js";
import type { LimitedClaim } from "#coordinator/limitedClaim.js";
import { PostgresLimiter } from "#coordinator/limiter/postgresLimiter.js";
import { type Reaped, reapRows } from "#coordinator/reap.js";
import { type Client, createClient } from "#core/client/client.js";
import type { Connection } from "#core/database/connection.js";
import { Statements } from "#core/database/statements.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import type { FlushResult } from "#flusher/env.js";
import { flush } from "#flusher/flush.js";
import type { TestDatabase } from "../support/database.js";
import { flushEnv, flusherConnection } from "../support/outcomes.js";

export const statements = new Statements("gen_durable");
const limiter = new PostgresLimiter(statements);
const KNOWN = { names: ["plain", "kid"], versions: [1, 1] };
let picks = 0;

export class Sides {
  readonly database: TestDatabase;
  readonly client: Client;

  constructor(database: TestDatabase) {
    this.database = database;
    this.client = createClient({ url: database.url, poke: "none" });
  }

  connection(): Promise<Connection> {
    return this.database.connection();
  }

  async claim(node = "node"): Promise<ClaimedRow[]> {
    const claim = await claimRunnable(await this.connection(), statements, {
      queue: "default",
      claim: `${node}/${++picks}`,
      rowsMax: 10,
      leaseTtlMs: 60_000,
      known: KNOWN,
      places: [],
    });
    return claim.rows;
  }

  async pick(queue = "default", isPlenty = false): Promise<LimitedClaim> {
    return claimLimited(
      await this.connection(),
      { statements, limiter, transaction: pickTransaction(true) },
      {
        queue,
        claim: `node/${++picks}`,
        rowsMax: 10,
        windowRows: 100,
        leaseTtlMs: 60_000,
        known: KNOWN,
        places: [],
        excluded: { keys: [], rates: [] },
        probes: [],
        isPlenty,
      },
    );
  }

  async flush(...outcomes: WireOutcome[]): Promise<FlushResult> {
    return flush(await flusherConnection(this.database), outcomes, flushEnv());
  }

  /** Takes back every executing row, as if their leases had run out. */
  async reap(): Promise<Reaped> {
    return reapRows(await this.connection(), statements, {
      deadNodes: null,
      leaseTtlMs: 60_000,
      asOf: new Date(Date.now() + 3_600_000),
    });
  }
}

/** The answers of a flush, counted. */
export function counted({ committed, stale, deferred }: FlushResult) {
  return { committed: committed.length, stale: stale.length, deferred: deferred.length };
}
