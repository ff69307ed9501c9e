// Project: what a command works on: the folder, its configuration, and the database that they lead to.
// J1  The embedded server is used from openProject to close(); whoever closes last stops it.

import type { GenDurableConfig } from "#core/config/config.js";
import type { SettingFlags } from "#core/config/flags.js";
import { maskUrl } from "#core/config/maskUrl.js";
import { type ResolvedConfig, resolveSettings } from "#core/config/resolve.js";
import { Connection } from "#core/database/connection.js";
import { requireMigrated } from "#core/database/migrate.js";
import { Statements } from "#core/database/statements.js";
import { UsageError } from "#core/errors.js";
import { loadConfigFile } from "./configFile.js";
import { attachEmbedded, type EmbeddedServer, hasEmbedded } from "./embedded/attach.js";
import type { DatabaseFlags } from "./options.js";

export interface Project {
  /** Globs are relative to it, and the embedded server lies in it. */
  folder: string;
  configPath: string | undefined;
  /** With the database's URL in place, the embedded one's too. */
  settings: ResolvedConfig["settings"];
  /** Paths and globs, as they were written. */
  fsms: string[];
  warnings: string[];
  /** Which database it is and why, for people; without a password. */
  databaseText: string;
  embedded: EmbeddedServer | undefined;
  /** Stops using the embedded server. Never rejects. */
  close(): Promise<void>;
}

export interface OpenOptions {
  /** Flags beyond those that say which database. */
  flags?: SettingFlags;
  /** Whether the command makes the embedded server where the folder has none yet. */
  createsEmbedded?: boolean;
  /** Told of what takes long or goes wrong; a line each. */
  report?: (line: string) => void;
}

/** Loads the configuration and makes sure of the embedded server, if that is the database. @throws UsageError */
export async function openProject(flags: DatabaseFlags, options: OpenOptions = {}): Promise<Project> {
  const file = await loadConfigFile(process.cwd(), flags.config ?? process.env.GEN_DURABLE_CONFIG);
  const resolved = resolve(file.value, file.path, { ...options.flags, ...settingFlags(flags) });
  const { fsms, warnings, databaseSource, settings } = resolved;
  const base = { folder: file.folder, configPath: file.path, fsms, warnings };
  if (databaseSource !== "embedded") {
    return {
      ...base,
      settings,
      databaseText: describeDatabase(settings.database.url, databaseSource),
      embedded: undefined,
      close: () => Promise.resolve(),
    };
  }
  const isAskedFor = flags.embedded === true || isTrue(process.env.GEN_DURABLE_EMBEDDED);
  refuseInProduction(isAskedFor);
  if (options.createsEmbedded !== true && !hasEmbedded(file.folder)) {
    throw new UsageError(
      "NO_DATABASE",
      `no database is configured, and ${file.folder} has no Postgres of its own yet: \`gen-durable start\` makes one; or name a database with --database-url, GEN_DURABLE_DATABASE_URL, the config file, DATABASE_URL or PG*`,
    );
  }
  const embedded = await attachEmbedded(
    file.folder,
    options.report === undefined ? {} : { report: options.report },
  );
  const why = isAskedFor ? "asked for" : "no database is configured";
  return {
    ...base,
    settings: { ...settings, database: { ...settings.database, url: embedded.url } },
    databaseText: `${maskUrl(embedded.url)}, the Postgres of this folder in ${embedded.place} (${why})`,
    embedded,
    close: () => embedded.release(),
  };
}

/** Opens the project for `body`, and closes it whatever happens. */
export async function withProject<T>(
  flags: DatabaseFlags,
  options: OpenOptions,
  body: (project: Project) => Promise<T>,
): Promise<T> {
  const project = await openProject(flags, {
    report: (line) => process.stderr.write(`${line}\n`),
    ...options,
  });
  try {
    return await body(project);
  } finally {
    await project.close();
  }
}

export interface OpenDatabase extends Project {
  connection: Connection;
  statements: Statements;
}

/** Opens the project and a connection to its migrated schema for `body`. */
export async function withDatabaseConnection<T>(
  flags: DatabaseFlags,
  body: (database: OpenDatabase) => Promise<T>,
): Promise<T> {
  return withProject(flags, {}, async (project) => {
    const connection = await openConnection(project);
    try {
      const { schema } = project.settings.database;
      await requireMigrated(connection, schema);
      return await body({ ...project, connection, statements: new Statements(schema) });
    } finally {
      await connection.close();
    }
  });
}

/** One connection to the project's database. @throws an error that says which database did not answer */
export async function openConnection({ settings, databaseText }: Project): Promise<Connection> {
  try {
    return await Connection.open(settings.database, { role: "cli" });
  } catch (error) {
    const reason =
      error instanceof AggregateError ? error.errors.map(String).join("; ") : (error as Error).message;
    throw new Error(`the database does not answer: ${reason}\n  it is ${databaseText}`, { cause: error });
  }
}

function resolve(value: unknown, path: string | undefined, flags: SettingFlags): ResolvedConfig {
  try {
    // What is in the file is checked by resolveSettings; its type is what it should be.
    return resolveSettings({ flags, env: process.env, file: value as GenDurableConfig });
  } catch (error) {
    if (path === undefined || !(error instanceof UsageError)) throw error;
    throw new UsageError("INVALID_CONFIG", `${path}:\n${error.message.replaceAll(/^/gm, "  ")}`, {
      ...(error.path === undefined ? {} : { path: error.path }),
      cause: error,
    });
  }
}

function settingFlags({ databaseUrl, schema, embedded }: DatabaseFlags): SettingFlags {
  return { databaseUrl, schema, embedded };
}

function describeDatabase(url: string | undefined, source: string): string {
  if (url !== undefined)
    return `${maskUrl(url)} (from ${source === "config file" ? "the config file" : source})`;
  const { PGHOST = "localhost", PGPORT, PGDATABASE, PGUSER } = process.env;
  const port = PGPORT === undefined ? "" : `:${PGPORT}`;
  const user = PGUSER === undefined ? "" : `${PGUSER}@`;
  return `${user}${PGHOST}${port}${PGDATABASE === undefined ? "" : `/${PGDATABASE}`} (from PG* variables)`;
}

function refuseInProduction(isAskedFor: boolean): void {
  if (process.env.NODE_ENV !== "production" || isAskedFor) return;
  throw new UsageError(
    "NO_DATABASE",
    "no database is configured, and NODE_ENV is production: name one with --database-url, GEN_DURABLE_DATABASE_URL, the config file, DATABASE_URL or PG*; or ask for the folder's own Postgres with --embedded",
  );
}

function isTrue(text: string | undefined): boolean {
  return /^(1|true|yes|on)$/i.test(text ?? "");
}
