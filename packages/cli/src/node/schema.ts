// Schema: before a node starts: its database answers and takes writes, and its schema is there.
// SC1  A server that recovers, or is a standby still, is waited for: an orchestrator that starts a node again and again during a
//      failover helps nobody. What waiting does not cure (a refused password, no database) ends the start at once.

import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#core/clock.js";
import { lossOf, messageOf } from "#core/database/advice.js";
import { Connection } from "#core/database/connection.js";
import { migrate, requireMigrated } from "#core/database/migrate.js";
import { quoteIdentifier } from "#core/database/statements.js";
import { UsageError } from "#core/errors.js";
import type { DatabaseSettings } from "#core/settings.js";
import { connectionError } from "../connectionError.js";
import type { NodeLog } from "./log.js";

const PATIENCE_MS = 60_000;
const PAUSE_MS_MIN = 200;
const PAUSE_MS_MAX = 2_000;
/** A migration may build an index; but an answer that never comes must not keep a start for ever. */
const ANSWER_TIMEOUT_MS = 600_000;

export interface SchemaOptions {
  database: DatabaseSettings;
  /** Which database it is, for people. */
  databaseText: string;
  /** Migrate; else the schema must be there. */
  migrate: boolean;
  log: NodeLog;
  /** Ends the waiting. */
  signal: AbortSignal | undefined;
}

/** @throws an error for people: no database, no right, no schema */
export async function prepareSchema(options: SchemaOptions): Promise<void> {
  const { database, log } = options;
  const connection = await openPatiently(options);
  try {
    if (!options.migrate) return await requireMigrated(connection, database.schema);
    const report = await migrate(connection, database.schema);
    if (report.applied.length > 0) log.write("info", "the schema was migrated", { applied: report.applied });
  } catch (error) {
    throw options.migrate ? explainMigration(error, database.schema) : error;
  } finally {
    await connection.close();
  }
}

/** A role that may not create what is missing. Used by `gen-durable migrate` too. */
export function explainMigration(error: unknown, schema: string): unknown {
  if ((error as { code?: unknown }).code !== "42501") return error;
  return new UsageError(
    "NOT_ALLOWED",
    `${messageOf(error)}: the role may not create or upgrade the schema ${quoteIdentifier(schema)}; run \`gen-durable migrate\` as a role that may, give this one its rights (\`gen-durable grants <role>\`), and \`start\` with --no-migrate`,
    { schema, cause: error },
  );
}

/** SC1. */
async function openPatiently(options: SchemaOptions): Promise<Connection> {
  const { database, databaseText, log, signal } = options;
  const startedMs = monotonicMs();
  for (let pauseMs = 0; ; pauseMs = Math.min(Math.max(pauseMs * 2, PAUSE_MS_MIN), PAUSE_MS_MAX)) {
    try {
      return await Connection.open(database, { role: "migrate", answerTimeoutMs: ANSWER_TIMEOUT_MS });
    } catch (error) {
      const isLate = monotonicMs() - startedMs > PATIENCE_MS || signal?.aborted === true;
      if (!mayPass(error) || isLate) throw connectionError(error, databaseText);
      if (pauseMs === 0)
        log.write("warn", "the database takes no writes yet; this node waits for it", { err: lossOf(error) });
    }
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

function mayPass(error: unknown): boolean {
  const code = (error as { code?: unknown }).code;
  return code === "57P03" || code === "ERR_GEN_DURABLE_STANDBY" || code === "ERR_GEN_DURABLE_NO_PRIMARY";
}
