// Template: the migrated database that every test file's own database is cloned from.

import { randomBytes } from "node:crypto";
import pg from "pg";
import { Connection } from "#core/database/connection.js";
import { migrate } from "#core/database/migrate.js";
import type { ServerFacts } from "./serverProcess.js";

/** Creates and migrates a template database. Its name is the run's own: a server given by URL may be shared. */
export async function createTemplate(server: ServerFacts): Promise<string> {
  const name = `gen_durable_template_${randomBytes(4).toString("hex")}`;
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  const settings = { url: url.href, listenUrl: undefined, schema: "gen_durable", prepare: true };
  const connection = await Connection.open(settings, { role: "test template" });
  await migrate(connection, "gen_durable");
  await connection.close();
  return name;
}
