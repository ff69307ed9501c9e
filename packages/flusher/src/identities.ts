// Identities: a row whose transition would enter an occupied correlation key loses its identity and goes on without it.

import { plainArray, textArray } from "./arrays.js";
import type { FlushEnv, FlushEvent, Session } from "./env.js";

export interface EnteringRow {
  id: number;
  /** The status it gets; a park may still turn out runnable. */
  status: string;
  /** Of a park: the awaited names and the seen signals, as array literals. */
  names: string | null;
  seen: string | null;
}

/** Empties the scope of rows whose key is occupied, or of all of them; an event names both instances. */
export async function releaseIdentities(
  session: Session,
  rows: readonly EnteringRow[],
  whoeverHasIt: boolean,
  env: FlushEnv,
): Promise<FlushEvent[]> {
  if (rows.length === 0) return [];
  const released = await session.run<{ id: number; key: string; occupant: number | null }>(
    env.statements.get("flusher/release_identities"),
    [
      plainArray(rows.map((row) => row.id)),
      textArray(rows.map((row) => row.status)),
      textArray(rows.map((row) => row.names)),
      textArray(rows.map((row) => row.seen)),
      whoeverHasIt,
      env.asOf,
    ],
  );
  return released.map(({ id, key, occupant }) => ({
    name: "identity_lost",
    fields: { id: Number(id), correlationKey: key, occupant: occupant === null ? null : Number(occupant) },
  }));
}
