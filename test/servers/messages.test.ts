// What people read when something is wrong with the database or beside it.

import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { folderWith, removeFolders, runCommand } from "../cli/command.js";
import { createDatabase, type TestDatabase, testServer } from "../support/database.js";
import { startNode } from "../support/node.js";
import { createRole } from "../support/roles.js";

let database: TestDatabase;
let cwd: string;

beforeAll(async () => {
  database = await createDatabase();
  cwd = folderWith({});
});
afterAll(removeFolders);

test("a start that fails says which database it was and why, and a taken port is named by its flag", async () => {
  const other = new URL(testServer().url);
  other.pathname = "/nowhere";
  other.password = "secret";
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const { port } = taken.address() as { port: number };
  const [missing, refused, occupied] = await Promise.all([
    runCommand(["start", "--database-url", other.href], { cwd }),
    runCommand(["start", "--database-url", "postgres://127.0.0.1:1/app"], { cwd }),
    runCommand(["start", "--database-url", database.url, "--port", String(port)], { cwd }),
  ]);
  taken.close();
  expect(missing.code).toBe(1);
  expect(missing.stderr).toMatch(
    /the database refuses the connection: database "nowhere" does not exist\n {2}it is .*:\*\*\*@.*\/nowhere \(from --database-url\)\n {2}create the database/,
  );
  expect(missing.stderr).not.toContain("secret");
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(
    /the database does not answer: .*ECONNREFUSED.*\n {2}it is .*\(from --database-url\)/,
  );
  expect(occupied.code).toBe(1);
  expect(occupied.stderr).toContain(`--port ${port}: something else listens on 127.0.0.1:${port} already`);
}, 30_000);

test("an outage is two lines, however many connections it cuts, and a missing right is called what it is", async () => {
  const app = await createRole(database);
  const granted = await runCommand(["grants", app.name, "--apply", "--database-url", database.url], { cwd });
  expect(granted).toMatchObject({ code: 0 });
  const node = await startNode({ database, fsms: ["basic"], config: { database: { url: app.url } } });
  await database.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", [
    app.name,
  ]);
  await node.logged("the connection to the database is back");
  await database.query(`REVOKE UPDATE ON gen_durable.nodes FROM ${app.name}`);
  const complaint = await node.logged("the heartbeat: the database refuses a statement");
  expect(JSON.stringify(complaint.err)).toContain("gen-durable grants <role>");
  const about = node.log
    .filter(({ msg }) => msg.includes("connection to the database"))
    .map(({ msg }) => msg);
  expect(about).toEqual([
    "the connection to the database is lost; it is being reopened",
    "the connection to the database is back",
  ]);
  await node.stop();
}, 60_000);
