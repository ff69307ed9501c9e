// Connections that are cut without a word: no FIN, no RST, no answer. Nothing hangs for ever, and each is noticed in its time.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { type Client, createClient } from "#core/client/client.js";
import { Connection } from "#core/database/connection.js";
import { createAudit } from "../support/audit.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { type NodeProcess, startNode } from "../support/node.js";
import { TcpProxy } from "../support/proxy.js";
import { until } from "../support/until.js";

const POLL_MS = 6_000;

let database: TestDatabase;
let proxy: TcpProxy;
/** Its own way to the database: only the node's connections are cut. */
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  await createAudit(database);
  proxy = await TcpProxy.start(database.url);
  client = createClient({ url: database.url });
});
afterAll(() => client.close());

const start = (pollIntervalMs: number): Promise<NodeProcess> =>
  startNode({
    database,
    fsms: ["basic"],
    config: {
      database: { url: proxy.url(database.url) },
      pollIntervalMs,
      maxPollIntervalMs: pollIntervalMs,
      leaseTtlMs: 30_000,
      heartbeatIntervalMs: 10_000,
    },
  });

async function runOne(timeoutMs: number): Promise<number> {
  const startedMs = performance.now();
  const { id } = await client.insertByName("plain");
  expect(await client.waitFor(id, { timeoutMs })).toMatchObject({ status: "done" });
  return performance.now() - startedMs;
}

test("a silently severed LISTEN is noticed within 15 s; until then polls find the work, and then it is caught up", async () => {
  const node = await start(POLL_MS);
  expect(await runOne(20_000)).toBeLessThan(POLL_MS / 2);
  expect(proxy.blackHole((name) => name === "gen-durable listener")).toBe(1);
  const severedMs = performance.now();
  // Within the poll interval, and a margin for the run itself.
  expect(await runOne(20_000)).toBeLessThan(POLL_MS * 1.5);
  const lost = await node.logged("the connection to the database is lost", 16_000);
  expect(lost).toMatchObject({ connection: "listener" });
  expect(performance.now() - severedMs).toBeLessThan(15_000);
  await until(
    () => proxy.links.some(({ name, isBlackHoled }) => name === "gen-durable listener" && !isBlackHoled),
    {
      describe: "LISTEN is open again",
    },
  );
  await node.logged("the connection to the database is back");
  expect(await runOne(20_000)).toBeLessThan(POLL_MS / 2);
  expect(await node.stop()).toEqual({ code: 0, signal: null });
}, 90_000);

test("with every connection cut silently a node is at work again within 20 s, and its heart has not stopped", async () => {
  const node = await start(1_000);
  await runOne(20_000);
  const cut = proxy.blackHole();
  expect(cut).toBeGreaterThanOrEqual(4);
  expect(await runOne(60_000)).toBeLessThan(20_000);
  // The heartbeat's answer is missed after 5 s, before anybody could declare the node dead.
  expect(node.log.some(({ msg }) => msg.includes("declared dead"))).toBe(false);
  // Each part finds out in its own time; none does so twice.
  const lost = node.log.filter(({ msg }) => msg.includes("connection to the database is lost"));
  expect(new Set(lost.map(({ connection }) => connection)).size).toBe(lost.length);
  await node.kill();
}, 90_000);

test("a server that takes the connection and says nothing is given up, by connections and by clients", async () => {
  proxy.swallow();
  const url = `${proxy.url(database.url)}?connect_timeout=1`;
  const settings = { url, listenUrl: undefined, schema: "gen_durable", prepare: true };
  await expect(Connection.open(settings, { role: "test" })).rejects.toThrow(/timeout/);
  const silent = createClient({ url });
  await expect(silent.insertByName("plain")).rejects.toMatchObject({
    code: "ERR_GEN_DURABLE_DATABASE_UNREACHABLE",
  });
  await silent.close();
  proxy.heal();
}, 30_000);

test("a wait whose connection is cut silently goes on over another one", async () => {
  const waiting = createClient({ url: proxy.url(database.url) });
  const { id } = await waiting.insertByName("plain");
  const answer = waiting.waitFor(id, { timeoutMs: 30_000 });
  await until(() => proxy.links.some(({ name }) => name === "gen-durable client"));
  proxy.blackHole((name) => name === "gen-durable client");
  const node = await startNode({ database, fsms: ["basic"] });
  expect(await answer).toMatchObject({ status: "done" });
  await node.stop();
  await waiting.close();
}, 60_000);
