// Locate: which database a client without `url` and `pool` means. The order is the command line's: GEN_DURABLE_*,
// DATABASE_URL, libpq's PG* variables, and last what the surroundings offer (the embedded server of this folder, which
// the published package looks up).

import { statementsOfEnvironment } from "../config/environment.js";
import { UsageError } from "../errors.js";
import type { DatabaseSettings } from "../settings.js";

export const SCHEMA_DEFAULT = "gen_durable";

/** Where a database is, and how it wants to be spoken to where that is known. */
export interface Located {
  url: string | undefined;
  prepare?: boolean | undefined;
  ssl?: DatabaseSettings["ssl"];
}

/** Says where a database runs when no variable does; undefined when there is none. */
export type FindDatabase = () => Promise<Located | string | undefined> | Located | string | undefined;

type Environment = Readonly<Record<string, string | undefined>>;

const PG_VARIABLES = ["PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGPORT", "PGUSER"];

/** The database; without a URL the PG* variables decide. @throws UsageError NO_DATABASE */
export async function locateDatabase(
  env: Environment,
  findDatabase: FindDatabase | undefined,
): Promise<Located> {
  const stated = env.GEN_DURABLE_DATABASE_URL || env.DATABASE_URL;
  if (stated) return { url: stated };
  if (PG_VARIABLES.some((name) => env[name])) return { url: undefined };
  const found = await findDatabase?.();
  if (typeof found === "string") return { url: found };
  if (found !== undefined) return found;
  throw new UsageError(
    "NO_DATABASE",
    "no database is configured and none runs in this folder: pass `url` or `pool` to createClient, set GEN_DURABLE_DATABASE_URL or DATABASE_URL, or start a node here",
    { path: "url" },
  );
}

/** What GEN_DURABLE_PREPARE and GEN_DURABLE_SSL say of any database. @throws UsageError for what they cannot be */
export function mannersOf(env: Environment): Pick<Located, "prepare" | "ssl"> {
  const manners: Record<string, unknown> = {};
  for (const { keys, value, origin } of statementsOfEnvironment(env).stated) {
    const [part, key = ""] = keys;
    if (part !== "database" || (key !== "prepare" && key !== "ssl")) continue;
    if (typeof value !== "boolean" && !(key === "ssl" && typeof value === "object"))
      throw new UsageError(
        "INVALID_OPTION",
        `${origin}: expected true or false${key === "ssl" ? ", or TLS options as JSON" : ""}`,
        {
          path: key,
        },
      );
    manners[key] = value;
  }
  return manners;
}
