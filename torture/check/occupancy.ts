// Occupancy: who executed under which key, in the order in which the changes were made. A change is numbered after it has
// waited for whoever was in its way, so of two that exclude each other the earlier has the lower number.

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
      ORDER BY n`,
  );
  return { events: rows as unknown as Occupancy[] };
}

export function isUnder(status: string | null, key: string | null): boolean {
  return status === "executing" && key !== null;
}
