// DatabaseChoice: from "which database was named" to a database that answers: the embedded server is started here, and
// people are told which one it is and why.

import { asksForEmbedded } from "#core/config/environment.js";
import { maskUrl } from "#core/config/maskUrl.js";
import type { DatabaseSource, ResolvedConfig } from "#core/config/resolve.js";
import { UsageError } from "#core/errors.js";
import type { DatabaseSettings } from "#core/settings.js";
import { attachEmbedded, type EmbeddedServer, hasEmbedded } from "./embedded/attach.js";

export interface ChosenDatabase {
  /** With the URL in place, the embedded server's too. */
  settings: DatabaseSettings;
  /** Which database it is and why, for people; without a password. */
  text: string;
  /** In use until released. */
  embedded: EmbeddedServer | undefined;
}

export interface ChoiceOptions {
  /** The project's folder: the embedded server lies in it. */
  folder: string;
  /** `--embedded` was given. */
  embeddedFlag: boolean;
  /** Make the embedded server where the folder has none yet. */
  createsEmbedded: boolean;
  /** Told of what takes long or goes wrong; a line each. */
  report: (line: string) => void;
}

/** Starts or joins the embedded server, if that is the database. @throws UsageError where it may not or cannot be */
export async function chooseDatabase(
  { settings, databaseSource }: Pick<ResolvedConfig, "settings" | "databaseSource">,
  options: ChoiceOptions,
): Promise<ChosenDatabase> {
  const { database } = settings;
  if (databaseSource !== "embedded")
    return { settings: database, text: describe(database.url, databaseSource), embedded: undefined };
  const isAskedFor = options.embeddedFlag || asksForEmbedded(process.env);
  const names =
    "--database-url, GEN_DURABLE_DATABASE_URL, the config file (database.url), DATABASE_URL or libpq's PG* variables";
  if (process.env.NODE_ENV === "production" && !isAskedFor) {
    throw new UsageError(
      "NO_DATABASE",
      `no database is configured, and NODE_ENV is production: name one with ${names}; or ask for the folder's own Postgres with --embedded`,
      { path: "database.url" },
    );
  }
  if (!options.createsEmbedded && !hasEmbedded(options.folder)) {
    throw new UsageError(
      "NO_DATABASE",
      `no database is configured, and ${options.folder} has no Postgres of its own yet: \`gen-durable start\` makes one; or name a database with ${names}`,
      { path: "database.url" },
    );
  }
  const embedded = await attachEmbedded(options.folder, { report: options.report });
  const why = isAskedFor ? "it was asked for" : "no database is configured";
  return {
    settings: { ...database, url: embedded.url },
    text: `${maskUrl(embedded.url)}, the Postgres of this folder in ${embedded.place}, because ${why}`,
    embedded,
  };
}

function describe(url: string | undefined, source: DatabaseSource): string {
  if (url !== undefined)
    return `${maskUrl(url)} (from ${source === "config file" ? "the config file" : source})`;
  const { PGHOST, PGPORT, PGDATABASE, PGUSER } = process.env;
  const server = `${PGUSER === undefined ? "" : `${PGUSER}@`}${PGHOST ?? "localhost"}`;
  const place = `${PGPORT === undefined ? "" : `:${PGPORT}`}${PGDATABASE === undefined ? "" : `/${PGDATABASE}`}`;
  return `${server}${place} (from PG* variables)`;
}
