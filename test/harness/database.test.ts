import { afterAll, expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";

const database = await createDatabase();
let dropped = "";

afterAll(() => {
  dropped = database.name;
});

test("a test file gets a migrated database of its own", async () => {
  const other = await createDatabase();
  await database.query("INSERT INTO gen_durable (fsm, step) VALUES ('a', 'b')");
  expect(await database.query("SELECT id FROM gen_durable")).toEqual([{ id: 1 }]);
  expect(await other.query("SELECT id FROM gen_durable")).toEqual([]);
  expect(other.name).not.toBe(database.name);
  await other.drop();
  expect(dropped).toBe("");
});

test("an empty database has no schema of ours", async () => {
  const empty = await createDatabase({ empty: true });
  expect(await empty.query("SELECT 1 FROM pg_namespace WHERE nspname = 'gen_durable'")).toEqual([]);
});

test("the server's log can be read for one database", async () => {
  await expect(database.query("SELECT 1 / 0")).rejects.toThrow("division by zero");
  expect(database.log().filter((line) => line.includes("division by zero"))).toHaveLength(1);
});

test("the engine's connection finds its tables", async () => {
  const connection = await database.connection();
  expect(connection.isLost).toBe(false);
});
