// The connections of a node: how many it opens, under which names, and what happens when there are none to be had.

import { afterEach, expect, test } from "@jest/globals";
import { connectionsOf, totalOf } from "#core/config/connections.js";
import { resolveSettings } from "#core/config/resolve.js";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { type NodeProcess, startNode } from "../support/node.js";
import { insertRows } from "../support/rows.js";
import { until } from "../support/until.js";

const nodes: NodeProcess[] = [];

async function start(options: Parameters<typeof startNode>[0]): Promise<NodeProcess> {
  const node = await startNode({ workers: 1, ...options });
  nodes.push(node);
  return node;
}

afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.kill()));
});

/** Open connections of the database's nodes, by instance and role. */
async function countOpen(database: TestDatabase): Promise<Record<string, Record<string, number>>> {
  const rows = await database.query<{ name: string; n: number }>(
    "SELECT application_name AS name, count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'gen-durable % %/%' GROUP BY 1",
  );
  const counts: Record<string, Record<string, number>> = {};
  for (const { name, n } of rows) {
    const [, role = "", owner = ""] = name.split(" ");
    const [instance = ""] = owner.split("/");
    counts[instance] = { ...counts[instance], [role]: n };
  }
  return counts;
}

const queuesOf = (count: number): Record<string, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`q${n}`, 20]));

test("a node opens what the formula says, by role, under its name, whatever its queues and its load", async () => {
  const database = await createDatabase();
  const shapes = [
    { instance: "keeper", queues: {} },
    { instance: "one", queues: queuesOf(1) },
    { instance: "three", queues: queuesOf(3), reaper: false, gc: false, poke: "none" },
    { instance: "nine", queues: queuesOf(9) },
  ] as const;
  const env = { GEN_DURABLE_TEST_AUDIT_URL: "" };
  await Promise.all(shapes.map((config) => start({ database, fsms: ["basic"], exactConfig: config, env })));
  await Promise.all(Object.keys(queuesOf(9)).map((queue) => insertRows(database, 300, { queue })));
  const peak: Record<string, Record<string, number>> = {};
  await until(async () => {
    for (const [instance, roles] of Object.entries(await countOpen(database)))
      for (const [role, n] of Object.entries(roles))
        peak[instance] = { ...peak[instance], [role]: Math.max(n, peak[instance]?.[role] ?? 0) };
    const { n } = await database.one<{ n: number }>(
      "SELECT count(*) AS n FROM gen_durable WHERE status <> 'done'",
    );
    return n === 0;
  });
  for (const shape of shapes) {
    const bound = connectionsOf(resolveSettings({ env: {}, file: shape }).settings);
    const open = { picker: 0, flusher: 0, sweeper: 0, listener: 0, ...peak[shape.instance] };
    expect({ [shape.instance]: open }).toEqual({
      [shape.instance]: { ...bound, picker: expect.any(Number) },
    });
    expect(open.picker).toBeLessThanOrEqual(bound.picker);
    const node = nodes.find(({ log }) =>
      log.some(({ queues }) => JSON.stringify(queues) === JSON.stringify(shape.queues)),
    );
    expect(node?.log.find(({ msg }) => msg === "the node is running")).toMatchObject({
      connections: totalOf(bound),
    });
  }
  expect(totalOf(connectionsOf(resolveSettings({ env: {}, file: { queues: queuesOf(9) } }).settings))).toBe(
    12,
  );
}, 90_000);

test("steps that hold every connection of their own pool hold up nobody else", async () => {
  const database = await createDatabase();
  await createAudit(database);
  await start({
    database,
    fsms: ["basic", "test/operate/fixtures/hog.ts"],
    config: { queues: { default: 5, hogs: 10 } },
  });
  await insertRows(database, 20, { fsm: "hog", queue: "hogs" });
  await until(async () => (await readAudit(database)).length === 10, {
    describe: "ten hogs have begun, three hold",
  });
  await insertRows(database, 50);
  const done = async (fsm: string) =>
    (
      await database.one<{ n: number }>(
        "SELECT count(*) AS n FROM gen_durable WHERE fsm = $1 AND status = 'done'",
        [fsm],
      )
    ).n;
  await until(async () => (await done("plain")) === 50, { timeoutMs: 10_000 });
  expect(await done("hog")).toBe(0);
  await letGo(database, "hogs");
  await until(async () => (await done("hog")) === 20);
}, 60_000);

test("DB6: without room for all its connections a node works with fewer; without any it says why, and comes back", async () => {
  const database = await createDatabase();
  const role = `crowd_${database.name}`;
  // Superusers know no limits: a role that may do what a node does, and no more.
  await database.query(`
    CREATE ROLE ${role} LOGIN PASSWORD 'crowd' CONNECTION LIMIT 8;
    GRANT USAGE ON SCHEMA gen_durable TO ${role};
    GRANT ALL ON ALL TABLES IN SCHEMA gen_durable TO ${role};
    GRANT ALL ON ALL SEQUENCES IN SCHEMA gen_durable TO ${role};
  `);
  try {
    const url = new URL(database.url);
    url.username = role;
    url.password = "crowd";
    // It would have eleven.
    const node = await start({
      database,
      fsms: ["basic"],
      flags: ["--no-migrate"],
      exactConfig: { database: { url: url.href }, queues: queuesOf(4), reaper: false, gc: false },
      env: { GEN_DURABLE_TEST_AUDIT_URL: "" },
    });
    const left = async () =>
      (await database.one<{ n: number }>("SELECT count(*) AS n FROM gen_durable WHERE status <> 'done'")).n;
    const fill = () =>
      Promise.all(Object.keys(queuesOf(4)).map((queue) => insertRows(database, 500, { queue })));
    await fill();
    await until(async () => (await left()) === 0, { describe: "fewer connections serve four queues" });
    const crowded = node.log.filter(({ msg }) => msg.includes("no room for a connection more"));
    expect(crowded).toMatchObject([{ open: expect.any(Number), wanted: 4, err: { code: "53300" } }]);

    await database.query(`ALTER ROLE ${role} CONNECTION LIMIT 0`);
    await database.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", [role]);
    await fill();
    await node.logged("the connection to the database is lost");
    await until(() => node.stderr.includes("the server has no free connection"), { describe: "it says why" });
    await database.query(`ALTER ROLE ${role} CONNECTION LIMIT -1`);
    await node.logged("the connection to the database is back");
    await until(async () => (await left()) === 0, { describe: "it works again" });
  } finally {
    await Promise.all(nodes.splice(0).map((node) => node.kill()));
    await database.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  }
}, 90_000);
