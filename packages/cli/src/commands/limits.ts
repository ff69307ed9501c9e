// `gen-durable limits`: what each limit may, has given out, and makes wait.

import type { Command } from "commander";
import type { Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import {
  type DatabaseFlags,
  examples,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { type Column, formatDuration, print, printJson, stdoutColors, table } from "../output.js";

/** Keys shown; those that make most rows wait come first within their limit. */
const KEYS_MAX = 1_000;

export interface LimitReport {
  kind: "gate" | "rate";
  name: string;
  /** The key; null where no key of the limit is in use. */
  key: string | null;
  /** Slots, or the burst. */
  capacity: number;
  shards: number;
  /** Tokens a second; null for a gate. */
  ratePerSecond: number | null;
  available: number;
  /** Slots that executing instances hold; null for a rate. */
  inUse: number | null;
  /** Runnable instances that are due. */
  waiting: number;
  /** Until a rate's next token; null: there is one, or none will come. */
  nextRefillMs: number | null;
}

export function limitsCommand(): Command {
  return withJson(
    withDatabase(newCommand("limits", "show each limit's capacity, what is in use, and what waits")),
  )
    .addHelpText("after", examples("gen-durable limits", "gen-durable limits --json | jq '.[].waiting'"))
    .action(async (flags: DatabaseFlags & OutputFlags) => {
      const { withDatabaseConnection } = await import("../project.js");
      const limits = await withDatabaseConnection(flags, ({ connection, statements }) =>
        readLimits(connection, statements),
      );
      if (flags.json === true) printJson(limits);
      else if (limits.length === 0) print("no limit is configured");
      else print(limitTable(limits));
    });
}

/** Reads the configured limits, a row a key. */
export async function readLimits(connection: Connection, statements: Statements): Promise<LimitReport[]> {
  const rows = await connection.run<{
    kind: "conc" | "rate";
    name: string;
    key: string | null;
    capacity: number;
    rate: number | null;
    shards: number;
    available: number;
    in_use: number | null;
    waiting: number;
    refill_ms: number | null;
  }>(statements.get("cli/list_limits"), [KEYS_MAX]);
  return rows.map((row) => ({
    kind: row.kind === "conc" ? "gate" : "rate",
    name: row.name,
    key: row.key,
    capacity: row.capacity,
    shards: row.shards,
    ratePerSecond: row.rate,
    available: row.available,
    inUse: row.in_use,
    waiting: row.waiting,
    nextRefillMs: row.refill_ms === null ? null : Math.ceil(row.refill_ms),
  }));
}

function limitTable(limits: readonly LimitReport[]): string {
  const columns: Column[] = [
    { title: "KIND" },
    { title: "KEY" },
    { title: "CAPACITY", align: "right" },
    { title: "IN USE", align: "right" },
    { title: "AVAILABLE", align: "right" },
    { title: "WAITING", align: "right" },
    { title: "NEXT REFILL", align: "right" },
    { title: "SHARDS", align: "right" },
  ];
  const rows = limits.map((limit) => [
    limit.kind,
    limit.key ?? `${limit.name} (unused)`,
    String(limit.capacity),
    limit.inUse === null ? "-" : String(limit.inUse),
    String(Math.floor(limit.available * 100) / 100),
    limit.waiting.toLocaleString("en-US"),
    limit.nextRefillMs === null ? "-" : formatDuration(limit.nextRefillMs),
    String(limit.shards),
  ]);
  return table(columns, rows, stdoutColors());
}
