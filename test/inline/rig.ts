// Rig: nodes over the walkers of machines.ts, and what these tests ask of their rows.

import { resolve } from "node:path";
import { pokeChannel } from "#core/poke.js";
import type { AuditEntry } from "../support/audit.js";
import type { TestDatabase } from "../support/database.js";
import type { HistoryEntry } from "../support/history.js";
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

/** How often the row went from runnable to executing. */
export function claims(history: readonly HistoryEntry[]): number {
  return history.filter(
    ({ status, op }, n) => op === "UPDATE" && status === "executing" && history[n - 1]?.status === "runnable",
  ).length;
}

const LIMITS: Record<string, number> = { one: 1, pool: 2 };

/** The keys under which, at some moment, more steps ran than their gate allows, by the steps' own entries. */
export function overlaps(
  audit: readonly AuditEntry[],
  plans: ReadonlyMap<number, readonly Stop[]>,
): string[] {
  const moments: { key: string; atMs: number; change: 1 | -1 }[] = [];
  for (const { instance, note, entered_at, left_at } of audit) {
    const stops = plans.get(instance) ?? [];
    // The key of a step is the last one that a step before it switched to.
    const { at } = note as { at: number };
    const key = stops.slice(0, at).findLast(({ to }) => to?.concurrencyKey !== undefined)?.to?.concurrencyKey;
    if (typeof key !== "string" || left_at === null) continue;
    moments.push(
      { key, atMs: entered_at.getTime(), change: 1 },
      { key, atMs: left_at.getTime(), change: -1 },
    );
  }
  // An entry and an exit in one millisecond do not overlap.
  moments.sort((a, b) => a.atMs - b.atMs || a.change - b.change);
  const running = new Map<string, number>();
  const over = new Set<string>();
  for (const { key, change } of moments) {
    const count = (running.get(key) ?? 0) + change;
    running.set(key, count);
    if (count > (LIMITS[key.split(":")[0] ?? ""] ?? 1)) over.add(key);
  }
  return [...over];
}
