// The long runs: five minutes of torture, and every mutant. And what the harness itself needs while its server is down.

import { randomInt } from "node:crypto";
import { expect, test } from "@jest/globals";
import { Database } from "../../torture/database.js";
import { Keeper } from "../../torture/keeper.js";
import { torture } from "./torture.js";

test("five minutes of torture break no invariant", async () => {
  const seed = process.env.GEN_DURABLE_TEST_SEED ?? String(randomInt(2 ** 31));
  const { status, output } = await torture("main.ts", ["--minutes", "5", "--seed", seed]);
  if (status !== 0) throw new Error(output.slice(-20_000));
  process.stderr.write(output);
  expect(output).toContain("PASSED");
}, 1_200_000);

test("every mutant is noticed", async () => {
  const { status, output } = await torture("mutants/main.ts", []);
  process.stderr.write(output);
  expect(status).toBe(0);
}, 5_400_000);

test("what the harness does over one connection begins anew when the server goes down in the middle", async () => {
  const keeper = await Keeper.start();
  const database = new Database(keeper.url);
  try {
    await database.query("CREATE TABLE told (n int)");
    let tries = 0;
    await database.session(async (client) => {
      tries++;
      await client.query("TRUNCATE told");
      await client.query("INSERT INTO told VALUES ($1)", [tries]);
      if (tries === 1) {
        await keeper.crash("SIGKILL");
        await keeper.restart();
      }
      await client.query("INSERT INTO told VALUES ($1)", [tries]);
    });
    expect(await database.query("SELECT n FROM told")).toEqual([{ n: 2 }, { n: 2 }]);
  } finally {
    await database.close();
    await keeper.stop();
  }
}, 60_000);
