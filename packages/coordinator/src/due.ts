// Due: asks the database when work comes up by itself. Plain, over a connection.

import type { Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";

export interface NextDue {
  /** Milliseconds until the earliest future row of a queue; a queue without one is absent. */
  queues: Map<string, number>;
  /** Milliseconds until the earliest await deadline of any queue; 0 or less: due. Null: none. */
  deadlineInMs: number | null;
}

/** Asks for the next due row of each queue and the next await deadline, in one statement. */
export async function findDue(
  connection: Connection,
  statements: Statements,
  queues: readonly string[],
  options: { asOf?: Date | null } = {},
): Promise<NextDue> {
  const rows = await connection.run<{ queue: string | null; due_in_ms: number }>(
    statements.get("timers/find_due"),
    [queues, options.asOf ?? null],
  );
  const due: NextDue = { queues: new Map(), deadlineInMs: null };
  for (const row of rows) {
    if (row.queue === null) due.deadlineInMs = row.due_in_ms;
    else due.queues.set(row.queue, row.due_in_ms);
  }
  return due;
}
