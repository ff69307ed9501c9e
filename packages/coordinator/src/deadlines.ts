// Deadlines: wakes instances whose await has timed out. Plain, over a connection: the timers and the testing helpers
// run the same code.
// DL1  A row that cannot wake as it is (its correlation key is being taken by somebody else) costs no other row its
//      timeout: the batch splits, and the row alone wakes without its identity.

import type { Runner } from "#core/database/connection.js";
import { classifyFailure } from "#core/database/failure.js";
import type { Statements } from "#core/database/statements.js";
import { pauseAt } from "#core/pausePoint.js";

/** Rows of one statement; its locks are held for some milliseconds. */
const TIMEOUT_ROWS_MAX = 500;

export interface WokenRow {
  id: number;
  queue: string;
}

type WokenRecord = WokenRow & Record<string, unknown>;

export interface FireOptions {
  asOf?: Date | null;
  /** Runs one batch in a transaction of its own, with a lock timeout; absent: each statement as it stands. */
  transact?: <T>(batch: () => Promise<T>) => Promise<T>;
}

/** Wakes every instance whose deadline has passed, in batches; a row that somebody has locked is left to the next call. */
export async function fireTimeouts(
  connection: Runner,
  statements: Statements,
  { asOf = null, transact = (batch) => batch() }: FireOptions = {},
): Promise<WokenRow[]> {
  const woken: WokenRow[] = [];
  let limit = TIMEOUT_ROWS_MAX;
  let releaseIdentity = false;
  for (;;) {
    try {
      const batch = await transact(async () => {
        const rows = await connection.run<WokenRecord>(statements.get("timers/fire_timeouts"), [
          limit,
          asOf,
          releaseIdentity,
        ]);
        await pauseAt("timeouts.woken");
        return rows;
      });
      woken.push(...batch);
      if (batch.length < limit) return woken;
      limit = Math.min(TIMEOUT_ROWS_MAX, limit * 2);
      releaseIdentity = false;
    } catch (error) {
      const failure = classifyFailure(error);
      if (failure !== "constraint" && failure !== "contention") throw error;
      if (limit > 1) limit >>= 1;
      else if (!releaseIdentity) releaseIdentity = true;
      else throw error;
    }
  }
}
