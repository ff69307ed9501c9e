// Catalogue: tells the database what this node knows: its definitions, and the limits that its configuration states.

import { setTimeout as delay } from "node:timers/promises";
import type { Connection } from "#core/database/connection.js";
import { classifyFailure } from "#core/database/failure.js";
import type { Statements } from "#core/database/statements.js";
import type { CatalogueEntry } from "#core/protocol/executor.js";
import type { NodeSettings } from "#core/settings.js";
import type { KnownDefinitions } from "./claim.js";
import type { Database } from "./database.js";
import type { Report } from "./report.js";

/** Between tries to write the catalogue while the database is away. */
const ENTER_RETRY_MS = 200;

/** Enters definitions and limits, for as long as it takes. A gate that takes keys which were exclusive is warned of. */
export async function enterCatalogue(
  database: Database,
  report: Report,
  settings: NodeSettings,
  catalogue: readonly CatalogueEntry[],
): Promise<void> {
  await untilDone(database, async (connection) => {
    await upsertDefinitions(connection, database.statements, catalogue);
    const captured = await findCaptured(connection, database.statements, settings);
    await upsertLimits(connection, database.statements, settings);
    for (const { name, key } of captured)
      report.log(
        "warn",
        "a new concurrency limit takes keys that were exclusive until now: their steps may overlap",
        { limit: name, key },
      );
  });
}

/** Says which definitions this node has loaded, for as long as it takes. */
export async function enterKnown(
  database: Database,
  node: string,
  catalogue: readonly CatalogueEntry[],
): Promise<void> {
  const { names, versions } = knownDefinitions(catalogue);
  await untilDone(database, async (connection) => {
    await connection.run(database.statements.get("node/enter_known"), [node, names, versions]);
  });
}

async function untilDone(database: Database, work: (connection: Connection) => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await database.run("keeper", work);
    } catch (error) {
      if (database.isClosed) return;
      if (classifyFailure(error) !== "connection") throw error;
      await delay(ENTER_RETRY_MS);
    }
  }
}

/** Enters the definitions, for clients and tools that do not have the code. */
export async function upsertDefinitions(
  connection: Connection,
  statements: Statements,
  catalogue: readonly CatalogueEntry[],
): Promise<void> {
  if (catalogue.length === 0) return;
  await connection.run(statements.get("node/upsert_fsms"), [
    catalogue.map((entry) => entry.name),
    catalogue.map((entry) => entry.version),
    catalogue.map((entry) => entry.queue),
    catalogue.map((entry) => entry.initialStep),
    catalogue.map((entry) => JSON.stringify(entry.steps.map((step) => step.name))),
    catalogue.map((entry) => entry.onCancel),
  ]);
}

/** Enters the limits that the configuration names; others stay. */
export async function upsertLimits(
  connection: Connection,
  statements: Statements,
  settings: Pick<NodeSettings, "rateLimits" | "concurrencyLimits">,
): Promise<void> {
  const limits = [
    ...Object.entries(settings.rateLimits).map(([name, { rate, burst, shards }]) => ({
      kind: "rate",
      name,
      rate,
      capacity: burst,
      shards,
    })),
    ...Object.entries(settings.concurrencyLimits).map(([name, { limit, shards }]) => ({
      kind: "conc",
      name,
      rate: null,
      capacity: limit,
      shards: Math.min(shards, limit),
    })),
  ];
  if (limits.length === 0) return;
  await connection.run(statements.get("node/upsert_limits"), [
    limits.map((limit) => limit.kind),
    limits.map((limit) => limit.name),
    limits.map((limit) => limit.rate),
    limits.map((limit) => limit.capacity),
    limits.map((limit) => limit.shards),
  ]);
}

/** Gates that are new to the database, and a live key of each that was exclusive until now. */
export async function findCaptured(
  connection: Connection,
  statements: Statements,
  { concurrencyLimits }: Pick<NodeSettings, "concurrencyLimits">,
): Promise<{ name: string; key: string }[]> {
  const names = Object.keys(concurrencyLimits);
  if (names.length === 0) return [];
  const rows = await connection.run<{ name: string; key: string | null }>(
    statements.get("node/find_captured"),
    [names],
  );
  return rows.flatMap(({ name, key }) => (key === null ? [] : [{ name, key }]));
}

/** What the claim filters by. */
export function knownDefinitions(catalogue: readonly CatalogueEntry[]): KnownDefinitions {
  return {
    names: catalogue.map((entry) => entry.name),
    versions: catalogue.map((entry) => entry.version),
  };
}
