// The role that nodes and clients run as: one that may not create anything, and one whose settings are strange.

import { afterAll, beforeAll, expect, test } from "@jest/globals";
import pg from "pg";
import { createClient } from "#core/client/client.js";
import { folderWith, removeFolders, runCommand } from "../cli/command.js";
import { createAudit } from "../support/audit.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { startNode } from "../support/node.js";
import { createRole, STRANGE_SETTINGS } from "../support/roles.js";
import { until } from "../support/until.js";
import { finishWorkload, LIMITS, repeatedSteps, startWorkload } from "./workload.js";

let database: TestDatabase;
let cwd: string;

beforeAll(async () => {
  database = await createDatabase({ empty: true });
  cwd = folderWith({});
});
afterAll(removeFolders);

test("an owner migrates and grants, and a role that may create nothing runs nodes and clients, whatever its settings", async () => {
  const owner = await createRole(database, { mayCreate: true });
  const app = await createRole(database, { settings: STRANGE_SETTINGS });
  const asApp = ["--database-url", app.url];

  const early = await runCommand(["migrate", ...asApp], { cwd });
  expect(early.code).toBe(1);
  expect(early.stderr).toMatch(/may not create or upgrade the schema "gen_durable".*--no-migrate/s);
  expect((await runCommand(["migrate", "--database-url", owner.url], { cwd })).code).toBe(0);
  const bare = await runCommand(["start", "--no-migrate", "--once", ...asApp], { cwd });
  expect(bare.code).toBe(1);
  expect(bare.stderr).toContain("gen-durable grants <role>");

  const printed = await runCommand(["grants", app.name, "--database-url", owner.url], { cwd });
  expect(printed.stdout).toContain(`GRANT SELECT ON gen_durable.migrations TO ${app.name};`);
  const applied = await runCommand(["grants", app.name, "--apply", "--database-url", owner.url], { cwd });
  expect(applied).toMatchObject({
    code: 0,
    stdout: `${app.name} may run nodes and clients on gen_durable\n`,
  });
  const nobody = await runCommand(["grants", "nobody_there", "--database-url", owner.url], { cwd });
  expect(nobody).toMatchObject({
    code: 1,
    stderr: 'error: there is no role "nobody_there" on this server\n',
  });

  await createAudit(database);
  const config = { ...LIMITS, database: { url: app.url }, gc: { intervalMs: 200, retentionMs: 0 } };
  const fsms = ["basic", "waiting", "family", "limited"];
  // It migrates at its start as by default: there is nothing to do, which needs no right.
  const node = await startNode({ database, fsms, config: { ...config, gc: false } });
  const client = createClient({ url: app.url });
  const started = await startWorkload(client, 15);
  expect(await finishWorkload(client, started, 30_000)).toBe(105);
  expect(await repeatedSteps(database)).toEqual([]);

  // A wait for a lock outlasts the role's lock_timeout and statement_timeout, and a transaction its idle timeout.
  const held = await client.insertByName("awaiter");
  await client.waitFor(held.id, { until: ["awaiting"] });
  const session = await database.session();
  await session.query(
    "BEGIN; SELECT 1 FROM gen_durable WHERE id = $1 FOR UPDATE".replace("$1", String(held.id)),
  );
  const cancelling = client.cancel(held.id, "late");
  await new Promise((resolve) => setTimeout(resolve, 1_800));
  await session.query("COMMIT");
  expect(await cancelling).toBe("cancelled");

  // The same client on a pool of the caller's own, on which nothing may be set.
  const pool = new pg.Pool({ connectionString: app.url, max: 4 });
  pool.on("error", () => undefined);
  const given = createClient({ pool });
  const more = await Promise.all(
    [1, 2, 3].map((target) => given.insertByName("counter", { state: { target } })),
  );
  expect(
    await finishWorkload(
      given,
      more.map(({ id }, n) => ({ id, expected: { status: "done", result: { count: n + 1 } } })),
      30_000,
    ),
  ).toBe(3);
  await given.close();
  await pool.end();

  expect(await node.stop()).toEqual({ code: 0, signal: null });
  const complaints = node.log.filter(({ level }) => level >= 40);
  expect(complaints).toEqual([]);
  await client.close();

  // The collector may delete, and the reaper may take back.
  const collector = await startNode({ database, fsms, config });
  await until(
    async () => (await database.one<{ n: number }>("SELECT count(*)::int AS n FROM gen_durable")).n === 0,
  );
  await collector.stop();
}, 240_000);
