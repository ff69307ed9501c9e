// Project: what a command works on: the folder, its configuration, and the database that they lead to.
// J1  The embedded server is used from openProject to close(); whoever closes last stops it.

import type { Client } from "#core/client/client.js";
import type { GenDurableConfig } from "#core/config/config.js";
import type { SettingFlags } from "#core/config/flags.js";
import { type DatabaseSource, type ResolvedConfig, resolveSettings } from "#core/config/resolve.js";
import { Connection } from "#core/database/connection.js";
import { requireMigrated } from "#core/database/migrate.js";
import { Statements } from "#core/database/statements.js";
import { UsageError } from "#core/errors.js";
import { shortPath } from "./compile.js";
import { loadConfigFile } from "./configFile.js";
import { connectionError } from "./connectionError.js";
import { chooseDatabase } from "./databaseChoice.js";
import type { DatabaseFlags } from "./options.js";

export interface Project {
  /** The embedded server lies in it. */
  folder: string;
  /** With the database's URL in place, the embedded one's too. */
  settings: ResolvedConfig["settings"];
  databaseSource: DatabaseSource;
  /** Which database it is and why, for people; without a password. */
  databaseText: string;
  /** Stops using the embedded server. Never rejects. */
  close(): Promise<void>;
}

export interface OpenOptions {
  /** Whether the command makes the embedded server where the folder has none yet. */
  createsEmbedded?: boolean;
}

/** Loads the configuration and makes sure of the embedded server, if that is the database. @throws UsageError */
export async function openProject(flags: DatabaseFlags, options: OpenOptions = {}): Promise<Project> {
  const file = await loadConfigFile(process.cwd(), configOf(flags));
  const resolved = inFile(file.path, () =>
    // What is in the file is checked by resolveSettings; its type is what it should be.
    resolveSettings({ flags: settingFlags(flags), file: file.value as GenDurableConfig }),
  );
  const database = await chooseDatabase(resolved, {
    folder: file.folder,
    embeddedFlag: flags.embedded === true,
    createsEmbedded: options.createsEmbedded === true,
    report: (line) => process.stderr.write(`${line}\n`),
  });
  return {
    folder: file.folder,
    settings: { ...resolved.settings, database: database.settings },
    databaseSource: resolved.databaseSource,
    databaseText: database.text,
    close: async () => {
      await database.embedded?.release();
    },
  };
}

/** Opens the project for `body`, and closes it whatever happens. */
export async function withProject<T>(
  flags: DatabaseFlags,
  options: OpenOptions,
  body: (project: Project) => Promise<T>,
): Promise<T> {
  const project = await openProject(flags, options);
  try {
    return await body(project);
  } finally {
    await project.close();
  }
}

/** Counting a large table takes a while; nothing takes so long. */
const ANSWER_TIMEOUT_MS = 600_000;

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
    return await Connection.open(settings.database, { role: "cli", answerTimeoutMs: ANSWER_TIMEOUT_MS });
  } catch (error) {
    throw connectionError(error, databaseText);
  }
}

/** Names the config file in what `body` throws about its contents. */
export function inFile<T>(path: string | undefined, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw namingFile(path, error);
  }
}

/** The error, with the config file's path where it is about the configuration. */
export function namingFile(path: string | undefined, error: unknown): unknown {
  if (path === undefined || !(error instanceof UsageError) || error.code !== "ERR_GEN_DURABLE_INVALID_CONFIG")
    return error;
  return new UsageError("INVALID_CONFIG", `${shortPath(path)}:\n${error.message.replaceAll(/^/gm, "  ")}`, {
    ...(error.path === undefined ? {} : { path: error.path }),
    cause: error,
  });
}

/** The config file that was named, if one was. */
export function configOf({ config }: DatabaseFlags): string | undefined {
  return config ?? (process.env.GEN_DURABLE_CONFIG || undefined);
}

export function settingFlags({ databaseUrl, schema, embedded }: DatabaseFlags): SettingFlags {
  return { databaseUrl, schema, embedded };
}

/** Opens the project and a client of its database for `body`. */
export async function withClient<T>(
  flags: DatabaseFlags,
  options: OpenOptions,
  body: (client: Client, project: Project) => Promise<T>,
): Promise<T> {
  return withProject(flags, options, async (project) => {
    const { url, schema, prepare, ssl } = project.settings.database;
    // Without a URL libpq's variables decide, and nothing else may.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("PG")));
    const { createClient } = await import("#core/client/client.js");
    const client = createClient({ schema, prepare, ssl, ...(url === undefined ? {} : { url }) }, { env });
    try {
      return await body(client, project);
    } finally {
      await client.close();
    }
  });
}
