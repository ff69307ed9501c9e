// Deadlines: wakes instances whose await has timed out. Plain, over a connection: the timers and the testing helpers
// run the same code.

import type { Runner } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";

/** Rows of one statement; its locks are held for some milliseconds. */
const TIMEOUT_ROWS_MAX = 500;

export interface WokenRow {
  id: number;
  queue: string;
}

/** Wakes every instance whose deadline has passed, in batches; a row that somebody has locked is left to the next call. */
export async function fireTimeouts(
  connection: Runner,
  statements: Statements,
  options: { asOf?: Date | null } = {},
): Promise<WokenRow[]> {
  const woken: WokenRow[] = [];
  for (;;) {
    const batch = await connection.run<{ id: number; queue: string }>(
      statements.get("timers/fire_timeouts"),
      [TIMEOUT_ROWS_MAX, options.asOf ?? null],
    );
    woken.push(...batch);
    if (batch.length < TIMEOUT_ROWS_MAX) return woken;
  }
}
