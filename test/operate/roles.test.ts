// Nodes of different roles: who runs, who only maintains, and engines that share a database and nothing else.

import { afterEach, expect, test } from "@jest/globals";
import { createClient } from "gen-durable";
import { createAudit, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { type NodeProcess, startNode } from "../support/node.js";
import { plain } from "../support/probes/basic.js";
import { xparent } from "../support/probes/family.js";
import { countStatuses, insertRow, readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { relay } from "./fixtures/relay.js";

const nodes: NodeProcess[] = [];

async function start(options: Parameters<typeof startNode>[0]): Promise<NodeProcess> {
  const node = await startNode(options);
  nodes.push(node);
  return node;
}

afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.kill()));
});

test("TOP-01, TOP-02: a node without queues takes back, collects and fires deadlines; workers only work", async () => {
  const database = await createDatabase();
  await createAudit(database);
  const [keeper, worker] = await Promise.all([
    start({
      database,
      config: { queues: {}, gc: { intervalMs: 50, retentionMs: 0 } },
      flags: ["--port", "0"],
    }),
    start({ database, fsms: ["basic"], config: { reaper: false, gc: false } }),
  ]);
  await keeper.logged(
    "this node serves no queue: it takes back what dead nodes held, removes what ended long ago",
  );
  await worker.logged("the reaper is off on this node");
  const { msg } = await keeper.logged("health is served on");
  expect(await (await fetch(`${msg.slice(msg.indexOf("http"))}/readyz`)).text()).toBe(
    "executors 0/0, database up\n",
  );

  const id = await insertRow(database, { fsm: "hold", state: { name: "never" } });
  const parked = await insertRow(database, {
    status: "awaiting_signal",
    awaits: ["go"],
    deadlineInMs: 50,
    queue: "nobody",
  });
  const old = await insertRow(database, { status: "done", updatedInMs: -1_000 });
  await until(async () => (await readAudit(database, id)).length === 1, { describe: "the step has begun" });
  await worker.kill();
  await until(async () => (await readRow(database, id)).status === "runnable", {
    describe: "its row is taken back",
  });
  await until(async () => (await readRow(database, parked)).status === "runnable", {
    describe: "a deadline fires",
  });
  await until(
    async () => (await database.query("SELECT FROM gen_durable WHERE id = $1", [old])).length === 0,
    {
      describe: "what has ended is removed",
    },
  );
  expect(await readAudit(database, id)).toHaveLength(1);
  await until(async () => (await database.query("SELECT FROM nodes")).length === 1, {
    describe: "the dead node is off the list",
  });
  expect((await keeper.stop()).code).toBe(0);
  expect(await database.query("SELECT FROM nodes")).toEqual([]);
}, 60_000);

test("TOP-07: two schemas of one database are two engines; a step's own client stays in its own, and drains with its node", async () => {
  const database = await createDatabase();
  const fsms = ["test/operate/fixtures/relay.ts"];
  const [one, two] = await Promise.all([
    start({ database, fsms }),
    start({ database, fsms, config: { database: { url: database.url, schema: 'The "Second"' } } }),
  ]);
  const clients = [
    createClient({ url: database.url }),
    createClient({ url: database.url, schema: 'The "Second"' }),
  ];
  const [first, second] = await Promise.all(
    clients.map((client) => client.insert(relay, { state: { copies: 3 } })),
  );
  for (const [n, client] of clients.entries())
    expect(await client.waitFor(relay, (n === 0 ? first : second)?.id ?? 0)).toMatchObject({
      status: "done",
    });
  const counts = async (schema: string) =>
    database.query(`SELECT fsm, count(*) AS n FROM ${schema}.gen_durable GROUP BY fsm ORDER BY fsm`);
  // The steps' clients hold their rows for a minute, unless their node ends before.
  expect(await counts("gen_durable")).toEqual([{ fsm: "relay", n: 1 }]);
  expect((await one.stop()).code).toBe(0);
  expect((await two.stop()).code).toBe(0);
  const all = [
    { fsm: "relay", n: 1 },
    { fsm: "relayed", n: 3 },
  ];
  expect([await counts("gen_durable"), await counts('"The ""Second"""')]).toEqual([all, all]);
  await Promise.all(clients.map((client) => client.close()));
}, 60_000);

test("TOP-08: nodes with disjoint queues and disjoint machines work side by side, and a join spans them", async () => {
  const database = await createDatabase();
  await createAudit(database);
  const [parents, kids] = await Promise.all([
    start({
      database,
      fsms: ["family"],
      config: { queues: { default: 5 }, pollIntervalMs: 60_000, maxPollIntervalMs: 60_000 },
    }),
    start({
      database,
      fsms: ["family", "basic"],
      config: { queues: { kids: 5 }, pollIntervalMs: 60_000, maxPollIntervalMs: 60_000 },
    }),
  ]);
  const client = createClient({ url: database.url });
  const { id } = await client.insert(xparent, { state: { kids: [{}, {}, {}] } });
  expect(await client.waitFor(xparent, id, { timeoutMs: 20_000 })).toMatchObject({ status: "done" });
  const audit = await readAudit(database);
  const pids = (fsm: string) => new Set(audit.filter((entry) => entry.fsm === fsm).map((entry) => entry.pid));
  expect([pids("xparent"), pids("child")].map((set) => [...set])).toEqual([[parents.pid], [kids.pid]]);
  // `plain` is a machine that only the other node knows, in a queue that it does not serve.
  const stray = await client.insert(plain);
  expect(await client.waitFor(stray.id, { timeoutMs: 200 })).toMatchObject({ status: "busy" });
  expect((await countStatuses(database)).runnable).toBe(1);
  await client.close();
}, 60_000);
