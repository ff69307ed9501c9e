// Release: gives back claims that nobody in this node holds. Plain, over a connection.
// RL1  Their gate slots are credited in the transaction that frees them, last.

import type { Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import { creditSlots, type FreedSlot } from "#flusher/riders.js";

/** A bucket that a picker has just locked. */
const LOCK_TIMEOUT_MS = 500;

interface ReleasedRecord {
  queue: string;
  gate: string | null;
  shard: number | null;
  [column: string]: unknown;
}

/** Releases claims by their names, or all of a node by its prefix. Returns the queues that got rows back. */
export async function releaseClaims(
  connection: Connection,
  statements: Statements,
  { claims, prefix }: { claims: readonly string[]; prefix: string | null },
): Promise<string[]> {
  const rows = await connection.transaction(
    async () => {
      const released = await connection.run<ReleasedRecord>(statements.get("picker/release_claims"), [
        claims,
        prefix,
      ]);
      await creditSlots(connection, slotsOf(released), { statements });
      return released;
    },
    { lockTimeoutMs: LOCK_TIMEOUT_MS },
  );
  return [...new Set(rows.map(({ queue }) => queue))];
}

/** The slots that rows held. */
export function slotsOf(rows: readonly { gate: string | null; shard: number | null }[]): FreedSlot[] {
  return rows.flatMap(({ gate, shard }) => (gate === null || shard === null ? [] : [{ key: gate, shard }]));
}
