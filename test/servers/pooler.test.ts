// PgBouncer in transaction mode, with so few server connections that everybody shares them.

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { type Client, createClient } from "#core/client/client.js";
import { folderWith, removeFolders, runCommand } from "../cli/command.js";
import { createAudit } from "../support/audit.js";
import { createDatabase, type TestDatabase, testServer } from "../support/database.js";
import { FAR_POLLS, startNode } from "../support/node.js";
import { hasPgBouncer, PgBouncer } from "../support/pgbouncer.js";
import { createRole, STRANGE_SETTINGS } from "../support/roles.js";
import { until } from "../support/until.js";
import { finishWorkload, LIMITS, startWorkload } from "./workload.js";

const FSMS = ["basic", "waiting", "family", "limited"];
const DEAF = "behind a pooler in transaction mode";

(hasPgBouncer() ? describe : describe.skip)("behind PgBouncer", () => {
  let database: TestDatabase;
  let pooler: PgBouncer;
  let url: string;
  let direct: string;
  let client: Client;

  beforeAll(async () => {
    database = await createDatabase();
    await createAudit(database);
    const role = await createRole(database, { settings: STRANGE_SETTINGS });
    const cwd = folderWith({});
    const granted = await runCommand(["grants", role.name, "--apply", "--database-url", database.url], {
      cwd,
    });
    expect(granted).toMatchObject({ code: 0 });
    pooler = await PgBouncer.start(testServer().url, { poolSize: 4, users: ["postgres", role.name] });
    url = pooler.url(role.url);
    direct = role.url;
    client = createClient({ url, prepare: false });
  }, 60_000);
  afterAll(async () => {
    await client.close();
    removeFolders();
  });

  test("nodes and a client work through it, whatever the role's settings, and a killed node loses nothing", async () => {
    const polling = await startNode({
      database,
      fsms: FSMS,
      config: { ...LIMITS, database: { url, prepare: false } },
    });
    const killed = await startNode({
      database,
      fsms: FSMS,
      config: { ...LIMITS, database: { url, prepare: false } },
    });
    const started = await startWorkload(client, 20);
    await killed.kill();
    expect(await finishWorkload(client, started, 100_000)).toBe(140);
    expect(await polling.stop()).toEqual({ code: 0, signal: null });
    // One line says that it polls, and there is nothing else to complain of.
    const complaints = polling.log.filter(({ level }) => level >= 40).map(({ msg }) => msg);
    expect(complaints.filter((msg) => !msg.startsWith("a node is dead"))).toEqual([
      expect.stringContaining(DEAF),
    ]);
    expect(await database.query("SELECT 1 FROM gen_durable WHERE status = 'executing'")).toEqual([]);
    // Nothing was set on the sessions that everybody shares.
    const shared = createClient({ url, prepare: false });
    expect(await shared.list()).toMatchObject({ instances: expect.anything() });
    await shared.close();
  }, 150_000);

  test("with a direct URL for LISTEN a node hears of an insert that came through the pooler", async () => {
    const node = await startNode({
      database,
      fsms: FSMS,
      config: { ...FAR_POLLS, database: { url, prepare: false, listenUrl: direct } },
    });
    const { id } = await client.insertByName("plain");
    expect(await client.waitFor(id, { timeoutMs: 10_000 })).toEqual({ status: "done", result: null });
    expect(await node.stop()).toEqual({ code: 0, signal: null });
    const complaints = node.log.filter(({ level }) => level >= 40).map(({ msg }) => msg);
    expect(complaints.filter((msg) => !msg.startsWith("a node is dead"))).toEqual([]);
  }, 60_000);

  test("named prepared statements collide there, and one clear line says what to set", async () => {
    const named = createClient({ url: pooler.url(database.url), prepare: true });
    const errors: { code?: string; message: string }[] = [];
    await until(
      async () => {
        const calls = Array.from({ length: 8 }, () =>
          named.insertByName("plain").catch((error) => errors.push(error)),
        );
        await Promise.all(calls);
        return errors.some(({ code }) => code === "ERR_GEN_DURABLE_POOLER");
      },
      { describe: () => `a statement collides: ${errors.map(({ message }) => message).join("; ")}` },
    );
    const collision = errors.find(({ code }) => code === "ERR_GEN_DURABLE_POOLER");
    expect(collision?.message).toContain("database.prepare: false");
    await named.close();
    const folder = folderWith({ "gen-durable.config.mjs": `export default { fsms: [] };` });
    const { code, stderr } = await runCommand(["start", "--database-url", pooler.url(database.url)], {
      cwd: folder,
    });
    expect(code).not.toBe(0);
    expect(stderr).toContain("GEN_DURABLE_PREPARE=false");
  }, 60_000);
});
