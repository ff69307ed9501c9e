// Locks: waiting until a session of the test's database waits for a lock, so that an interleaving is forced, not hoped for.

import type { TestDatabase } from "../support/database.js";
import { until } from "../support/until.js";

/** Waits until so many sessions of this database wait for a lock. */
export async function untilBlocked(database: TestDatabase, count = 1): Promise<void> {
  await until(async () => {
    const { n } = await database.one<{ n: number }>(
      "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    return n >= count;
  });
}
