// Orphans: instances that wait for children of which none is left to end, because the last were deleted by hand.
// Plain, over a connection.

import type { Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";

/** Waiting instances of one statement. */
const LOOK_ROWS_MAX = 1_000;
/** Waiting instances of one sweep; a later sweep looks at all again. */
const SWEEP_ROWS_MAX = 100_000;

/** Wakes them. Returns the queues of those that woke. */
export async function wakeOrphanedParents(connection: Connection, statements: Statements): Promise<string[]> {
  const queues = new Set<string>();
  let afterId = 0;
  for (let seen = 0; seen < SWEEP_ROWS_MAX; seen += LOOK_ROWS_MAX) {
    const looked = await connection.run<{ id: number; orphaned: boolean }>(
      statements.get("reaper/find_orphaned_parents"),
      [afterId, LOOK_ROWS_MAX],
    );
    const orphans = looked.filter(({ orphaned }) => orphaned).map(({ id }) => id);
    if (orphans.length > 0) {
      for (const queue of await wake(connection, statements, orphans)) queues.add(queue);
    }
    afterId = looked.at(-1)?.id ?? afterId;
    if (looked.length < LOOK_ROWS_MAX) break;
  }
  return [...queues];
}

async function wake(
  connection: Connection,
  statements: Statements,
  ids: readonly number[],
): Promise<string[]> {
  return connection.transaction(async () => {
    const locked = await connection.run<{ id: number }>(statements.get("reaper/lock_parents"), [ids]);
    if (locked.length === 0) return [];
    const woken = await connection.run<{ queue: string }>(statements.get("reaper/wake_orphaned_parents"), [
      locked.map(({ id }) => id),
    ]);
    return woken.map(({ queue }) => queue);
  });
}
