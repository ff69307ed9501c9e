// Bench: what a benchmark is given: a durable server of its own, a migrated database, and a node in another process.

import { resolve } from "node:path";
import { Connection } from "#core/database/connection.js";
import { migrate } from "#core/database/migrate.js";
import { TestDatabase } from "../test/support/database.js";
import { type NodeProcess, startNode } from "../test/support/node.js";
import { Server } from "../test/support/server.js";
import type { Report } from "./report.js";

/** What a small server of one's own would be given: the working set in memory, and no checkpoint within a round. */
const SERVER_SETTINGS = { autovacuum: "on", shared_buffers: "512MB", max_wal_size: "4GB" };

export interface Benchmark {
  name: string;
  /** One line for the list. */
  about: string;
  /** Options with their defaults, all numbers. */
  options: Record<string, number>;
  run(bench: Bench, options: Readonly<Record<string, number>>, report: Report): Promise<void>;
}

export class Bench {
  readonly #server: Server;
  readonly #databases = new Set<TestDatabase>();
  readonly #nodes: NodeProcess[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Starts a server on which a commit is on the disk when it returns. */
  static async start(): Promise<Bench> {
    return new Bench(await Server.start({ fsync: true, settings: SERVER_SETTINGS }));
  }

  /** A database of its own, without anything of the engine. */
  async createEmptyDatabase(name: string): Promise<TestDatabase> {
    await this.#maintain(`CREATE DATABASE ${name}`);
    const database = new TestDatabase(name, this.#server.url(name), this.#server.url());
    this.#databases.add(database);
    return database;
  }

  /** Drops a database before the server's end, whoever is connected to it. */
  async dropDatabase(database: TestDatabase): Promise<void> {
    this.#databases.delete(database);
    await database.pool.end();
    await this.#maintain(`DROP DATABASE ${database.name} WITH (FORCE)`);
  }

  /** A migrated database of its own. */
  async createDatabase(name: string): Promise<TestDatabase> {
    const database = await this.createEmptyDatabase(name);
    const connection = await Connection.open(database.settings(), { role: "bench" });
    await migrate(connection, "gen_durable");
    await connection.close();
    return database;
  }

  /** Starts a node in a process of its own. Exactly this configuration: what it does not say has the default. */
  async startNode(
    database: TestDatabase,
    config: Record<string, unknown>,
    workers: number,
  ): Promise<NodeProcess> {
    const node = await startNode({
      database,
      fsms: [resolve("benchmarks/fsms/bench.ts"), resolve("benchmarks/fsms/chain.ts")],
      exactConfig: config,
      workers,
    });
    this.#nodes.push(node);
    return node;
  }

  get log(): string {
    return this.#server.log();
  }

  /** The postmaster's process: all others of the server are its children. */
  get serverPid(): number {
    const { pid } = this.#server;
    if (pid === undefined) throw new Error("the server has ended");
    return pid;
  }

  /** The URL of the maintenance database. */
  get serverUrl(): string {
    return this.#server.url();
  }

  async describeServer(): Promise<string> {
    const database = new TestDatabase("postgres", this.#server.url(), this.#server.url());
    const { version, fsync } = await database.one<{ version: string; fsync: string }>(
      "SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync",
    );
    await database.pool.end();
    return `Postgres ${version}, fsync ${fsync}`;
  }

  async #maintain(text: string): Promise<void> {
    const maintenance = new TestDatabase("postgres", this.#server.url(), this.#server.url());
    await maintenance.query(text);
    await maintenance.pool.end();
  }

  async close(): Promise<void> {
    for (const node of this.#nodes) await node.kill();
    for (const database of this.#databases) await database.pool.end();
    await this.#server.stop();
  }
}
