// Locate: which database a client without `url` and `pool` means. The order is the command line's: GEN_DURABLE_*,
// DATABASE_URL, libpq's PG* variables, and last what the surroundings offer (the embedded server of this folder, which
// the published package looks up).

import { UsageError } from "../errors.js";

export const SCHEMA_DEFAULT = "gen_durable";

/** Says where a database runs when no variable does; undefined when there is none. */
export type FindDatabase = () => Promise<string | undefined> | string | undefined;

const PG_VARIABLES = ["PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGPORT", "PGUSER"];

/** The database's URL; undefined: the PG* variables decide. @throws UsageError NO_DATABASE */
export async function locateDatabase(
  env: Readonly<Record<string, string | undefined>>,
  findDatabase: FindDatabase | undefined,
): Promise<{ url: string | undefined }> {
  const stated = env.GEN_DURABLE_DATABASE_URL || env.DATABASE_URL;
  if (stated) return { url: stated };
  if (PG_VARIABLES.some((name) => env[name])) return { url: undefined };
  const found = await findDatabase?.();
  if (found !== undefined) return { url: found };
  throw new UsageError(
    "NO_DATABASE",
    "no database is configured and none runs in this folder: pass `url` or `pool` to createClient, set GEN_DURABLE_DATABASE_URL or DATABASE_URL, or start a node here",
    { path: "url" },
  );
}
