// Database: one a test file, cloned from the run's migrated template, dropped after the file's last test.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import pg from "pg";
import { Connection, type ConnectionOptions } from "#core/database/connection.js";
import type { DatabaseSettings } from "#core/settings.js";
import type { ServerFacts } from "./serverProcess.js";

const POOL_CONNECTIONS_MAX = 4;

type Facts = ServerFacts & { template: string };

const open = new Set<TestDatabase>();

// Jest puts its hooks on globalThis; benchmarks that use this file have none.
const hooks = globalThis as { afterAll?: (hook: () => Promise<void>) => void };
hooks.afterAll?.(async () => {
  for (const database of open) await database.drop();
});

/** The run's server, as globalSetup started it. */
export function testServer(): Facts {
  const facts = process.env.GEN_DURABLE_TEST_SERVER;
  if (facts === undefined) throw new Error("no test server: tests under test/ run through `npm run jest`");
  return JSON.parse(facts) as Facts;
}

export interface DatabaseOptions {
  /** Start without any schema, as a fresh server would be. */
  empty?: boolean;
}

/** A database of the calling test's own, migrated unless `empty`. */
export async function createDatabase(options: DatabaseOptions = {}): Promise<TestDatabase> {
  const { url, template } = testServer();
  const name = `t_${randomBytes(6).toString("hex")}`;
  await maintain(url, `CREATE DATABASE ${name}${options.empty === true ? "" : ` TEMPLATE ${template}`}`);
  const own = new URL(url);
  own.pathname = `/${name}`;
  const database = new TestDatabase(name, own.href, url);
  open.add(database);
  return database;
}

export class TestDatabase {
  readonly name: string;
  readonly url: string;
  readonly #maintenanceUrl: string;
  readonly #pool: pg.Pool;
  readonly #sessions = new Set<pg.Client>();
  readonly #connections = new Set<Connection>();

  constructor(name: string, url: string, maintenanceUrl: string) {
    this.name = name;
    this.url = url;
    this.#maintenanceUrl = maintenanceUrl;
    this.#pool = new pg.Pool({ ...sessionConfig(url, "test"), max: POOL_CONNECTIONS_MAX });
    this.#pool.on("error", () => undefined);
  }

  /** What the engine's parts take as `DatabaseSettings`. */
  settings(overrides: Partial<DatabaseSettings> = {}): DatabaseSettings {
    return { url: this.url, listenUrl: undefined, schema: "gen_durable", prepare: true, ...overrides };
  }

  /** Runs text on a pooled session whose search path holds the engine's schema; bigint is a number, jsonb is parsed. */
  async query<R extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<R[]> {
    return (await this.#pool.query<R>(text, [...values])).rows;
  }

  /** The first row of an answer. @throws when there is none. */
  async one<R extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<R> {
    const [row] = await this.query<R>(text, values);
    if (row === undefined) throw new Error(`no row: ${text}`);
    return row;
  }

  /** The pool itself, for what takes one (`createClient({ pool })`). */
  get pool(): pg.Pool {
    return this.#pool;
  }

  /** A second session, to hold locks or open transactions with. Ended by drop(). */
  async session(): Promise<pg.Client> {
    const client = new pg.Client(sessionConfig(this.url, "test session"));
    client.on("error", () => undefined);
    await client.connect();
    this.#sessions.add(client);
    return client;
  }

  /** The engine's own kind of connection. Closed by drop(). */
  async connection(options: Partial<ConnectionOptions> = {}): Promise<Connection> {
    const connection = await Connection.open(this.settings(), { role: "test", ...options });
    this.#connections.add(connection);
    return connection;
  }

  /** What the server has logged about this database, a line each. @throws where the log cannot be read. */
  log(): string[] {
    const { logFile } = testServer();
    if (logFile === null)
      throw new Error(
        "this test reads the server's log: name its file in GEN_DURABLE_TEST_DATABASE_LOG, written with log_line_prefix = '%m [%p] %q%a@%d '",
      );
    return readFileSync(logFile, "utf8")
      .split("\n")
      .filter((line) => line.includes(`@${this.name} `));
  }

  /** Ends this object's sessions and drops the database, whoever is connected to it. */
  async drop(): Promise<void> {
    if (!open.delete(this)) return;
    for (const client of this.#sessions) await client.end().catch(() => undefined);
    for (const connection of this.#connections) await connection.close();
    await this.#pool.end();
    await maintain(this.#maintenanceUrl, `DROP DATABASE IF EXISTS ${this.name} WITH (FORCE)`);
  }
}

const INT8 = 20;
const types = {
  getTypeParser: (oid: number, format?: "text" | "binary") =>
    oid === INT8 ? Number : pg.types.getTypeParser(oid, format as "text"),
} as pg.CustomTypesConfig;

/** A session that finds the engine's tables without naming their schema. */
function sessionConfig(url: string, name: string): pg.ClientConfig {
  return {
    connectionString: url,
    types,
    application_name: name,
    options: "-c search_path=gen_durable,public",
  };
}

/** Runs one statement on the maintenance database. */
async function maintain(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, application_name: "test maintenance" });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}
