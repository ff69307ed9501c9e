// createClient without `url` and `pool`: it finds the database as the commands do.

import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { environment, folderWith, removeFolders } from "./command.js";

jest.setTimeout(30_000);
afterAll(removeFolders);

const SCRIPT = `
import { createClient } from "${pathToFileURL(resolve("packages/cli/dist/cli/index.js")).href}";
const client = createClient();
try {
  console.log(JSON.stringify(await client.insertByName("plain")));
} catch (error) {
  console.log(error.code + ": " + error.message);
}
await client.close();
`;

let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  await database.query("INSERT INTO fsms VALUES ('plain', 1, 'default', 'start', '{start}', NULL)");
});

function insertFrom(cwd: string, env: Record<string, string> = {}): Promise<string> {
  return new Promise((done) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", SCRIPT], {
      cwd,
      env: environment(env),
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    child.once("close", () => done(output.trim()));
  });
}

test("variables, the config file, and nothing at all", async () => {
  const none = folderWith({});
  const url = (text: string, schema = "gen_durable"): string =>
    folderWith({
      "gen-durable.config.ts": `export default { database: { url: "${text}" as string, schema: "${schema}" } };`,
    });
  const wrong = "postgres://127.0.0.1:1/nowhere";
  const { hostname, port, username, password, pathname } = new URL(database.url);
  const pgVariables = {
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: pathname.slice(1),
  };
  const inserted = await Promise.all([
    insertFrom(none, { DATABASE_URL: database.url }),
    insertFrom(none, pgVariables),
    insertFrom(url(database.url), { DATABASE_URL: wrong }),
    insertFrom(url(wrong), { GEN_DURABLE_DATABASE_URL: database.url }),
    insertFrom(folderWith({ "gen-durable.config.mjs": "export default {};" }), pgVariables),
  ]);
  for (const answer of inserted) expect(answer).toMatch(/^\{"ok":true,"id":\d+\}$/);
  const [nothing, schema] = await Promise.all([insertFrom(none), insertFrom(url(database.url, "jobs"))]);
  expect(nothing).toMatch(/^ERR_GEN_DURABLE_NO_DATABASE: /);
  expect(schema).toMatch(/^ERR_GEN_DURABLE_INVALID_OPTION: the config file states the schema "jobs"/);
});
