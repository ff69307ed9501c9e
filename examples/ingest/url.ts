// Url: the database that the node took. Named by the environment, or the folder's embedded server, which it has started.

import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

/** Its URL, with the password. @throws when there is none. */
export async function findDatabaseUrl(): Promise<string> {
  const named = process.env.GEN_DURABLE_DATABASE_URL ?? process.env.DATABASE_URL;
  if (named !== undefined && named !== "") return named;
  const manifest = createRequire(import.meta.url).resolve("gen-durable/package.json");
  const bin = join(dirname(manifest), "bin", "gen-durable.js");
  const { stdout } = await promisify(execFile)(process.execPath, [bin, "db", "url"]);
  return stdout.trim();
}
