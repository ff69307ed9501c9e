// Rig: nodes over the walkers of machines.ts, and what these tests ask of their rows.

import { resolve } from "node:path";
import { pokeChannel } from "#core/poke.js";
import type { TestDatabase } from "../support/database.js";
import { FAR_POLLS, type NodeProcess, startNode } from "../support/node.js";
import { insertRow, type RowSpec, readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import type { Stop } from "./machines.js";

export const MACHINES = resolve("test/inline/machines.ts");

/** Leases that no test waits for, and polls that find nothing by themselves. */
export const CALM = { ...FAR_POLLS, leaseTtlMs: 60_000, heartbeatIntervalMs: 20_000, gc: false };

export function startWalkers(
  database: TestDatabase,
  config: Record<string, unknown> = {},
  more: { workers?: number; env?: Record<string, string> } = {},
): Promise<NodeProcess> {
  return startNode({ database, fsms: [MACHINES], config: { ...CALM, ...config }, ...more });
}

/** Inserts a walker and pokes its queue. */
export async function insertWalk(
  database: TestDatabase,
  stops: readonly Stop[],
  spec: RowSpec = {},
): Promise<number> {
  const id = await insertRow(database, { fsm: "chained", step: "walk", state: { stops }, ...spec });
  await poke(database, spec.queue);
  return id;
}

export async function poke(database: TestDatabase, queue = "default"): Promise<void> {
  await database.query("SELECT pg_notify($1, $2)", [pokeChannel("gen_durable"), queue]);
}

/** Resolves with the row when it has ended. */
export function ended(database: TestDatabase, id: number): ReturnType<typeof readRow> {
  return until(
    async () => {
      const row = await readRow(database, id);
      return row.status === "done" || row.status === "failed" ? row : undefined;
    },
    { describe: `instance ${id} ends` },
  );
}

/** Plain stops, so many. */
export function stopsOf(count: number, stop: Stop = {}): Stop[] {
  return Array.from({ length: count }, () => stop);
}
