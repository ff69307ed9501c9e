// Orphans: instances that wait for children of which none is left to end, because the last were deleted by hand.
// Plain, over a connection.
// OR1  A parent that cannot wake as it is (its correlation key is being taken) costs no other parent its wake: those that
//      failed together are tried one by one, and one that fails alone is left to the next sweep.

import type { Connection } from "#core/database/connection.js";
import { classifyFailure } from "#core/database/failure.js";
import type { Statements } from "#core/database/statements.js";
import { pauseAt } from "#core/pausePoint.js";

/** Waiting instances of one statement. */
const LOOK_ROWS_MAX = 1_000;
/** Waiting instances of one sweep; the next one goes on where it stopped. */
const SWEEP_ROWS_MAX = 100_000;
/** Waits that cannot be skipped: another transaction that enters the same correlation key. */
const LOCK_TIMEOUT_MS = 500;

export interface OrphanSweep {
  /** The queues of the parents that woke. */
  queues: string[];
  /** Where the next sweep starts; 0: at the beginning, all were looked at. */
  afterId: number;
}

/** Wakes them, looking at a bounded number of waiting instances from `afterId` on. */
export async function wakeOrphanedParents(
  connection: Connection,
  statements: Statements,
  startId = 0,
): Promise<OrphanSweep> {
  const queues = new Set<string>();
  let afterId = startId;
  for (let seen = 0; seen < SWEEP_ROWS_MAX; seen += LOOK_ROWS_MAX) {
    const looked = await connection.run<{ id: number; orphaned: boolean }>(
      statements.get("reaper/find_orphaned_parents"),
      [afterId, LOOK_ROWS_MAX],
    );
    const orphans = looked.filter(({ orphaned }) => orphaned).map(({ id }) => id);
    if (orphans.length > 0) {
      await pauseAt("orphans.found");
      for (const queue of await wake(connection, statements, orphans)) queues.add(queue);
    }
    afterId = looked.at(-1)?.id ?? afterId;
    if (looked.length < LOOK_ROWS_MAX) return { queues: [...queues], afterId: 0 };
  }
  return { queues: [...queues], afterId };
}

/** OR1. */
async function wake(
  connection: Connection,
  statements: Statements,
  ids: readonly number[],
): Promise<string[]> {
  try {
    return await wakeTogether(connection, statements, ids);
  } catch (error) {
    const failure = classifyFailure(error);
    if (failure !== "constraint" && failure !== "contention") throw error;
    if (ids.length === 1) return [];
  }
  const queues: string[] = [];
  for (const id of ids) queues.push(...(await wake(connection, statements, [id])));
  return queues;
}

async function wakeTogether(
  connection: Connection,
  statements: Statements,
  ids: readonly number[],
): Promise<string[]> {
  return connection.transaction(
    async () => {
      const locked = await connection.run<{ id: number }>(statements.get("reaper/lock_parents"), [ids]);
      if (locked.length === 0) return [];
      const woken = await connection.run<{ queue: string }>(statements.get("reaper/wake_orphaned_parents"), [
        locked.map(({ id }) => id),
      ]);
      return woken.map(({ queue }) => queue);
    },
    { lockTimeoutMs: LOCK_TIMEOUT_MS },
  );
}
