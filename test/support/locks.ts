// Locks: waiting until a session of the test's database waits for a lock, so that an interleaving is forced, not hoped for.
// Only this database counts: other tests' sessions on the same server wait for locks of their own.

import type { TestDatabase } from "./database.js";
import { until } from "./until.js";

/** Sessions of this database that wait for a lock. */
export async function countBlocked(database: TestDatabase): Promise<number> {
  const { n } = await database.one<{ n: number }>(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
  );
  return n;
}

/** Waits until so many sessions of this database wait for a lock. */
export async function untilBlocked(database: TestDatabase, count = 1): Promise<void> {
  await until(async () => (await countBlocked(database)) >= count, { everyMs: 2 });
}
