// Chains while their server is ended without a farewell, again and again.
import { expect, test } from "@jest/globals";
import { Connection } from "#core/database/connection.js";
import { migrate } from "#core/database/migrate.js";
import { gateErrors } from "../limits/rig.js";
import { TestDatabase } from "../support/database.js";
import { insertRow } from "../support/rows.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";
import { poke, startWalkers, stopsOf } from "./rig.js";

const RESTARTS = 4;
const STOPS = 40;
const CHAINS = 60;
/** Steps between two restarts. */
const STEPS_BETWEEN = 150;

test("chains under gates of limit 1 go on over four ends of the server: every result is whole, every gate exact", async () => {
  const server = await Server.start({ fsync: true });
  try {
    const database = new TestDatabase("postgres", server.url(), server.url());
    const connection = await Connection.open(database.settings(), { role: "test" });
    await migrate(connection, "gen_durable");
    await connection.close();
    await startWalkers(
      database,
      { queues: { default: 20 }, concurrencyLimits: { one: { limit: 1 } } },
      // The steps themselves ask nothing of the database.
      { workers: 2, env: { GEN_DURABLE_TEST_AUDIT_URL: "" } },
    );
    for (let n = 0; n < CHAINS; n++) {
      const to = n % 2 === 0 ? {} : { concurrencyKey: `one:${n % 5}` };
      await insertRow(database, {
        fsm: "chained",
        step: "walk",
        state: { stops: stopsOf(STOPS, { ms: 1, to }) },
      });
    }
    await poke(database);
    for (let restart = 0; restart < RESTARTS; restart++) {
      const before = await visits(database);
      await until(async () => (await visits(database)) >= before + STEPS_BETWEEN, {
        timeoutMs: 60_000,
        describe: "chains go on",
      });
      await server.kill(restart % 2 === 0 ? "SIGQUIT" : "SIGKILL");
      await server.restart();
    }
    await until(
      async () => (await database.query("SELECT 1 FROM gen_durable WHERE status <> 'done'")).length === 0,
      {
        timeoutMs: 120_000,
        describe: "all chains are done",
      },
    );
    const rows = await database.query<{ result: string[] }>("SELECT result FROM gen_durable");
    expect(rows.map(({ result }) => result.map((stop) => Number(stop.split("|")[0])))).toEqual(
      Array.from({ length: CHAINS }, () => Array.from({ length: STOPS }, (_, at) => at)),
    );
    expect(await gateErrors(database)).toEqual([]);
  } finally {
    await server.stop();
  }
}, 300_000);

/** Steps that are committed; the server may be down. */
async function visits(database: TestDatabase): Promise<number> {
  const rows = await database
    .query<{ sum: number }>("SELECT CAST(sum(visit) AS int) AS sum FROM gen_durable")
    .catch(() => []);
  return rows[0]?.sum ?? 0;
}
