// Occupancy: who executed under which key, in the order of the commits. Whoever takes a key or a slot that another gives
// back waits for that other's commit, by a lock or by a unique index; so in this order nobody overlaps who must not.

import type { CheckScene } from "./invariant.js";

export interface Occupancy {
  n: number;
  atMs: number;
  id: number;
  wasStatus: string | null;
  status: string | null;
  wasKey: string | null;
  key: string | null;
  wasShard: number | null;
  shard: number | null;
}

export async function readOccupancy(scene: CheckScene): Promise<{ events: Occupancy[] }> {
  const rows = await scene.query<Record<string, unknown>>(
    `SELECT n::float8 AS n, (extract(epoch FROM at) * 1000)::float8 AS "atMs", id::float8 AS id, was_status AS "wasStatus", status,
            was_key AS "wasKey", key, was_shard AS "wasShard", shard
       FROM torture.history
      WHERE (was_status = 'executing' AND was_key IS NOT NULL) OR (status = 'executing' AND key IS NOT NULL)
      ORDER BY pg_xact_commit_timestamp((xid % 4294967296)::text::xid), n`,
  );
  return { events: rows as unknown as Occupancy[] };
}

export function isUnder(status: string | null, key: string | null): boolean {
  return status === "executing" && key !== null;
}
