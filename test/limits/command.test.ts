// `gen-durable limits`, and what `status` says of rows whose limit nobody has configured.
import { afterAll, expect, jest, test } from "@jest/globals";
import { folderWith, removeFolders, runCommand } from "../cli/command.js";
import { createDatabase } from "../support/database.js";
import { insertRow } from "../support/rows.js";
import { configure, pickRows } from "./rig.js";

jest.setTimeout(60_000);
afterAll(removeFolders);

const database = await createDatabase();

test("limits shows capacity, use, what waits and the next refill; status shows rows of an unconfigured limit", async () => {
  const connection = await database.connection();
  await configure(database, {
    gate: { limit: 2 },
    api: { limit: 2, rate: 0.1 },
    idle: { limit: 7, shards: 2 },
  });
  for (let i = 0; i < 3; i++) await insertRow(database, { concurrency_key: "gate:1" });
  for (let i = 0; i < 5; i++) await insertRow(database, { rate_limit: "api" });
  await insertRow(database, { rate_limit: "typo:1" });
  await pickRows(connection);
  const run = (...args: string[]) =>
    runCommand(args, { cwd: folderWith({}), env: { DATABASE_URL: database.url } });
  const { stdout } = await run("limits", "--json");
  expect(JSON.parse(stdout)).toEqual([
    {
      kind: "gate",
      name: "gate",
      key: "gate:1",
      capacity: 2,
      shards: 1,
      ratePerSecond: null,
      available: 0,
      inUse: 2,
      waiting: 1,
      nextRefillMs: null,
    },
    expect.objectContaining({ name: "idle", key: null, capacity: 7, shards: 2, available: 7, inUse: 0 }),
    expect.objectContaining({ kind: "rate", key: "api", capacity: 2, inUse: null, waiting: 3 }),
  ]);
  const refill = (JSON.parse(stdout) as { nextRefillMs: number }[])[2]?.nextRefillMs ?? 0;
  expect(refill).toBeGreaterThan(0);
  expect(refill).toBeLessThanOrEqual(10_000);
  expect((await run("limits")).stdout).toMatch(/gate\s+gate:1\s+2\s+2\s+0\s+1/);
  const status = JSON.parse((await run("status", "--json")).stdout) as { stalled: Record<string, unknown>[] };
  expect(status.stalled.map(({ detail }) => detail)).toContain("typo:1");
});
