// Client: createClient as the package exports it. Without `url` and `pool` it finds the database as the commands do:
// GEN_DURABLE_DATABASE_URL, the config file of the current folder, DATABASE_URL, PG*, the folder's own Postgres.

import { type Client, createClient as createCoreClient } from "#core/client/client.js";
import { type Located, SCHEMA_DEFAULT } from "#core/client/locate.js";
import type { ClientOptions } from "#core/client/options.js";
import type { GenDurableConfig } from "#core/config/config.js";
import { resolveSettings } from "#core/config/resolve.js";
import { UsageError } from "#core/errors.js";
import { findConfigFile, loadConfigFile } from "./configFile.js";
import { findEmbedded } from "./embedded/attach.js";
import { configOf, inFile } from "./project.js";

/** libpq's own variables say everything; `pg` reads them for what a URL leaves out. */
const URL_OF_PG_VARIABLES = "postgres:///";
const DATABASE_VARIABLES = /^(GEN_DURABLE_DATABASE_URL|DATABASE_URL|PG[A-Z]+)$/;

/**
 * Makes a client. It looks for its database at the first call, and connects then. A folder's own Postgres is found while
 * a node runs it; a client does not start it. Without `url` and `pool` the config file's `insertBatcher` holds as well.
 * @throws UsageError INVALID_OPTION
 */
export function createClient(options: ClientOptions = {}): Client {
  if (options.url !== undefined || options.pool !== undefined) return createCoreClient(options);
  const folder = process.cwd();
  // Without a config file the variables alone decide, and the core knows them.
  if (findConfigFile(folder, configOf({})) === undefined)
    return createCoreClient(options, { findDatabase: () => findEmbedded(folder) });
  // Read once, at the first call that needs it.
  let reading: ReturnType<typeof readConfig> | undefined;
  const read = () => {
    reading ??= readConfig(folder).catch((error: unknown) => {
      reading = undefined;
      throw error;
    });
    return reading;
  };
  const findBatcher = async () => (await read()).resolved.insertBatcher;
  if (process.env.GEN_DURABLE_DATABASE_URL) return createCoreClient(options, { findBatcher });
  const entries = Object.entries(process.env).filter(([name]) => !DATABASE_VARIABLES.test(name));
  return createCoreClient(options, {
    env: Object.fromEntries(entries),
    findDatabase: async () => locate(await read(), options.schema),
    findBatcher,
  });
}

async function readConfig(folder: string) {
  const file = await loadConfigFile(folder, configOf({}));
  const resolved = inFile(file.path, () =>
    // What is in the file is checked by resolveSettings; its type is what it should be.
    resolveSettings({ file: file.value as GenDurableConfig }),
  );
  return { folder: file.folder, resolved };
}

async function locate(
  { folder, resolved: { settings, databaseSource } }: Awaited<ReturnType<typeof readConfig>>,
  schemaOption: string | undefined,
): Promise<Located | string | undefined> {
  const { schema, url, prepare, ssl } = settings.database;
  if (schemaOption === undefined && schema !== (process.env.GEN_DURABLE_SCHEMA || SCHEMA_DEFAULT)) {
    throw new UsageError(
      "INVALID_OPTION",
      `the config file states the schema "${schema}": give it to createClient too, as { schema: "${schema}" }, or set GEN_DURABLE_SCHEMA`,
      { path: "schema" },
    );
  }
  switch (databaseSource) {
    case "embedded":
      return findEmbedded(folder);
    case "PG* variables":
      return { url: URL_OF_PG_VARIABLES, prepare, ssl };
    default:
      return { url, prepare, ssl };
  }
}
