// Two real servers, the second a streaming replica of the first with synchronous replication. The first is killed, the second
// promoted, and the first comes back as if nothing had happened.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import pg from "pg";
import { type Client, createClient } from "#core/client/client.js";
import { folderWith, removeFolders, runCommand } from "../cli/command.js";
import { TestDatabase } from "../support/database.js";
import { type NodeProcess, spawnNode, startNode } from "../support/node.js";
import { TcpProxy } from "../support/proxy.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";

const WRITERS = 8;

let first: Server;
let second: Server;
let onSecond: pg.Pool;
let load: Load | undefined;

beforeAll(async () => {
  first = await Server.start();
  await ask(first, "CREATE DATABASE app");
  second = await Server.start({ standbyOf: first });
  await ask(first, "ALTER SYSTEM SET synchronous_standby_names = '*'");
  await ask(first, "SELECT pg_reload_conf()");
  await until(
    async () => {
      const [row] = await ask<{ sync_state: string }>(first, "SELECT sync_state FROM pg_stat_replication");
      return row?.sync_state === "sync";
    },
    { describe: () => `the replica is synchronous; it logged ${second.log().slice(-1_000)}` },
  );
  onSecond = new pg.Pool({ connectionString: second.url("app"), max: 2 });
  onSecond.on("error", () => undefined);
}, 60_000);
afterAll(async () => {
  await load?.stop();
  await onSecond.end();
  await Promise.all([first.stop(), second.stop()]);
  removeFolders();
});

test("nodes and clients carry on against the promoted replica, nothing that was acknowledged is lost, and the old primary is left alone", async () => {
  const url = `postgres://postgres@127.0.0.1:${first.port},127.0.0.1:${second.port}/app?target_session_attrs=read-write`;
  // What a node needs of a test's database is its URL; its probes write no audit here.
  const database = new TestDatabase("app", first.url("app"), first.url());
  const proxy = await TcpProxy.start(first.url());
  const common = { database, fsms: ["basic"], env: { GEN_DURABLE_TEST_AUDIT_URL: "" } };
  const [a, b] = await Promise.all([
    startNode({ ...common, config: { database: { url } } }),
    // The second node knows one address, which moves.
    startNode({ ...common, config: { database: { url: proxy.url(first.url("app")) } } }),
  ]);
  const early = spawnNode({ ...common, config: { database: { url: second.url("app") } } });
  await early.logged("takes no writes yet");

  const client = createClient({ url });
  const work = new Load(client);
  load = work;
  await until(() => work.done.size >= 100, {
    timeoutMs: 60_000,
    describe: () =>
      `work is done before the failover: ${work.inserted.size} inserted, ${work.done.size} done, ${work.failures} failures, the last ${work.lastError}; node a logged ${a.stderr.slice(-2_000)}`,
  });

  await first.kill();
  proxy.retarget(second.url());
  // Meanwhile only a standby answers.
  await until(() => work.failures > 0, { describe: "a caller notices" });
  await ask(second, "SELECT pg_promote()");
  const before = work.done.size;
  await until(() => work.done.size >= before + 100, {
    describe: () =>
      `work is done after the failover; ${work.lastError}; node a logged ${a.stderr.slice(-2_000)}`,
  });
  await early.ready();

  await first.restart();
  const old = await countOn(first);
  const again = work.done.size;
  await until(() => work.done.size >= again + 50, { describe: "work is done beside the old primary" });
  const cwd = folderWith({});
  const inserted = await runCommand(["insert", "plain", "{}", "--database-url", url, "--json"], { cwd });
  expect(inserted).toMatchObject({ code: 0 });
  work.inserted.add((JSON.parse(inserted.stdout) as { id: number }).id);

  // With the new primary away, the old one is no way out.
  await second.kill();
  await until(() => /an old primary \(timeline 1; 2 was seen/.test(work.lastError), {
    describe: () => `the old primary is refused; the last error was ${work.lastError}`,
  });
  await second.restart();
  const last = work.done.size;
  await until(() => work.done.size >= last + 50, { describe: "work is done after the new primary's crash" });
  expect(await countOn(first)).toEqual(old);

  await work.stop();
  await audit(work);
  for (const node of [a, b, early] satisfies NodeProcess[])
    expect(await node.stop()).toEqual({ code: 0, signal: null });
  expect(a.log.map(({ msg }) => msg)).toContain("the connection to the database is back");
  await client.close();
  await database.drop().catch(() => undefined);
}, 240_000);

/** Everything acknowledged is there, and everything that is there comes to its end. */
async function audit(load: Load): Promise<void> {
  await until(
    async () =>
      (await onSecond.query("SELECT FROM gen_durable.gen_durable WHERE status <> 'done'")).rowCount === 0,
    {
      describe: "every instance ends",
    },
  );
  const { rows } = await onSecond.query<{ id: string; result: unknown }>(
    "SELECT id, result FROM gen_durable.gen_durable",
  );
  const results = new Map(rows.map(({ id, result }) => [Number(id), result]));
  expect([...load.inserted].filter((id) => !results.has(id))).toEqual([]);
  expect([...load.done].filter((id) => JSON.stringify(results.get(id)) !== '{"count":5}')).toEqual([]);
}

async function countOn(server: Server): Promise<unknown> {
  const [row] = await ask(
    server,
    "SELECT count(*), max(id), max(updated_at) FROM gen_durable.gen_durable",
    "app",
  );
  return row;
}

async function ask<R extends pg.QueryResultRow = pg.QueryResultRow>(
  server: Server,
  text: string,
  name = "postgres",
): Promise<R[]> {
  const client = new pg.Client({ connectionString: server.url(name) });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<R>(text)).rows;
  } finally {
    await client.end();
  }
}

/** Callers that insert and wait without end, and note what was acknowledged to them. */
class Load {
  readonly inserted = new Set<number>();
  readonly done = new Set<number>();
  failures = 0;
  lastError = "";
  readonly #client: Client;
  #stopped = false;
  readonly #writers: Promise<void>[];

  constructor(client: Client) {
    this.#client = client;
    this.#writers = Array.from({ length: WRITERS }, () => this.#write());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#writers);
  }

  async #write(): Promise<void> {
    while (!this.#stopped) {
      try {
        const { id } = await this.#client.insertByName("counter", { state: { target: 5 } });
        this.inserted.add(id);
        const answer = await this.#client.waitFor(id, { timeoutMs: 20_000 });
        if (answer.status === "done") this.done.add(id);
      } catch (error) {
        this.failures++;
        this.lastError = (error as Error).message;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }
}
