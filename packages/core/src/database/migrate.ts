// Migrate: brings a schema to this version's form, forward only.
// M1  One migrator at a time: a transaction-scoped advisory lock on the schema's name is taken before anything is
//     created, so ten processes on an empty database do it once.
// M2  Everything is one transaction: a schema is whole or untouched.
// M3  A schema carries the oldest code version that can run on it; an older node is refused, a newer one is not.

import { createHash } from "node:crypto";
import { UsageError } from "../errors.js";
import type { Connection } from "./connection.js";
import { migrationNames, quoteIdentifier, type Statement, Statements } from "./statements.js";

/** The number of this code's newest migration. */
export function codeVersion(): number {
  const newest = migrationNames().at(-1);
  return newest === undefined ? 0 : numberOf(newest);
}

/** The oldest code that can run on the schema as the newest migration leaves it. */
const OLDEST_CODE_VERSION = 1;

export interface MigrationReport {
  /** The migrations that were applied now, by name. */
  applied: string[];
  /** The schema's version afterwards. */
  version: number;
}

/**
 * Creates or upgrades the schema. Safe to run from many processes at once, and again at any time.
 * @throws UsageError when the schema is too new for this code, or when the role may not create it.
 */
export async function migrate(connection: Connection, schema: string): Promise<MigrationReport> {
  const statements = new Statements(schema);
  return connection.transaction(async () => {
    await connection.run(statements.get("node/lock_migrations"), [advisoryKey(schema)]);
    await createSchema(connection, statements);
    const [state] = await connection.run<{ version: number; oldest_code: number }>(
      statements.get("node/read_migrations"),
    );
    const version = state?.version ?? 0;
    if ((state?.oldest_code ?? 0) > codeVersion()) throw tooNew(schema, version);
    const applied: string[] = [];
    for (const name of migrationNames()) {
      if (numberOf(name) <= version) continue;
      await connection.command(statements.get(`migrations/${name}`).text);
      await connection.run(statements.get("node/record_migration"), [
        numberOf(name),
        name,
        OLDEST_CODE_VERSION,
      ]);
      applied.push(name);
    }
    return { applied, version: Math.max(version, codeVersion()) };
  });
}

/** Checks without changing anything. @throws UsageError when the schema is missing, too old or too new for this code. */
export async function requireMigrated(connection: Connection, schema: string): Promise<void> {
  const statements = new Statements(schema);
  let state: { version: number; oldest_code: number } | undefined;
  try {
    [state] = await connection.run<{ version: number; oldest_code: number }>(
      statements.get("node/read_migrations"),
    );
  } catch (error) {
    if ((error as { code?: string }).code !== "42P01" && (error as { code?: string }).code !== "3F000")
      throw error;
  }
  if (state === undefined || state.version < codeVersion()) {
    throw new UsageError(
      "NOT_MIGRATED",
      `the schema ${quoteIdentifier(schema)} is ${state === undefined ? "not there" : `at version ${state.version}, this code needs ${codeVersion()}`}: run \`gen-durable migrate\``,
      { schema },
    );
  }
  if (state.oldest_code > codeVersion()) throw tooNew(schema, state.version);
}

async function createSchema(connection: Connection, statements: Statements): Promise<void> {
  const [found] = await connection.run<{ has_schema: boolean; has_migrations: boolean }>(
    statements.get("node/find_schema"),
    [statements.schema],
  );
  // CREATE ... IF NOT EXISTS asks for the right to create even when there is nothing to do.
  if (found?.has_schema !== true) await connection.command(statements.get("node/create_schema").text);
  if (found?.has_migrations !== true) await connection.command(statements.get("node/create_migrations").text);
}

function tooNew(schema: string, version: number): UsageError {
  return new UsageError(
    "SCHEMA_TOO_NEW",
    `the schema ${quoteIdentifier(schema)} is at version ${version}, which this version of gen-durable cannot run on: upgrade gen-durable`,
    { schema, version },
  );
}

function numberOf(name: string): number {
  return Number.parseInt(name.slice(0, 4), 10);
}

/** A bigint that only this schema's migrators lock. */
function advisoryKey(schema: string): string {
  return createHash("sha256")
    .update(`gen-durable migrations of ${schema}`)
    .digest()
    .readBigInt64BE(0)
    .toString();
}

export type { Statement };
