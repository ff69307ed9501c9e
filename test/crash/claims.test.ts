// A claim's commit does not wait for the disk. What a server that stops at once makes of claims and of their outcomes.
import { expect, test } from "@jest/globals";
import { claimRunnable } from "#coordinator/claim.js";
import { Connection } from "#core/database/connection.js";
import { migrate } from "#core/database/migrate.js";
import { Statements } from "#core/database/statements.js";
import { flush } from "#flusher/flush.js";
import { TestDatabase } from "../support/database.js";
import { done, flushEnv, flusherConnection, outcomeOf } from "../support/outcomes.js";
import { insertRow, readRow } from "../support/rows.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";

const statements = new Statements("gen_durable");
const ROWS = 20;

async function claim(database: TestDatabase, name: string) {
  const connection = await database.connection();
  const { rows } = await claimRunnable(connection, statements, {
    queue: "default",
    claim: name,
    rowsMax: ROWS,
    leaseTtlMs: 60_000,
    known: { names: ["plain"], versions: [1] },
    places: [],
  });
  const [setting] = await connection.run<{ value: string }>({
    name: "",
    text: "SELECT current_setting('synchronous_commit') AS value",
  });
  await connection.close();
  expect(setting?.value).toBe("on");
  return rows.map((row) => row.id);
}

test("a forgotten claim is a row that runs again, its late outcome is stale, and a committed outcome stands", async () => {
  const server = await Server.start({ fsync: true, settings: { wal_writer_delay: "10s" } });
  try {
    const database = new TestDatabase("postgres", server.url(), server.url());
    const migrating = await Connection.open(database.settings(), { role: "test" });
    await migrate(migrating, "gen_durable");
    await migrating.close();

    for (let n = 0; n < ROWS; n++) await insertRow(database);
    const first = await claim(database, "node/1");
    expect(first).toHaveLength(ROWS);
    const flusher = await flusherConnection(database);
    const outcomes = first.map((id) => outcomeOf(id, done('"first"'), { claim: "node/1" }));
    const stands = await flush(flusher, outcomes, flushEnv());
    expect(stands.committed).toHaveLength(ROWS);
    await flusher.close();
    for (let n = 0; n < ROWS; n++) await insertRow(database);
    const second = await claim(database, "node/2");
    expect(second).toHaveLength(ROWS);

    await server.kill("SIGQUIT");
    await server.restart();
    await until(() =>
      database.query("SELECT 1").then(
        () => true,
        () => false,
      ),
    );
    for (const id of first)
      expect(await readRow(database, id)).toMatchObject({ status: "done", result: "first" });
    // Its own commit was one: all rows of a claim are forgotten, or none.
    const statuses = new Set(
      (await Promise.all(second.map((id) => readRow(database, id)))).map((row) => row.status),
    );
    expect(statuses.size).toBe(1);
    const isForgotten = statuses.has("runnable");

    const late = await flusherConnection(database);
    const answers = await flush(
      late,
      second.map((id) => outcomeOf(id, done('"late"'), { claim: "node/2" })),
      flushEnv(),
    );
    expect(answers.stale).toHaveLength(isForgotten ? ROWS : 0);
    expect(await claim(database, "node/3")).toHaveLength(isForgotten ? ROWS : 0);
    const again = await flush(
      late,
      second.map((id) => outcomeOf(id, done('"again"'), { claim: "node/3" })),
      flushEnv(),
    );
    expect(again.committed).toHaveLength(isForgotten ? ROWS : 0);
    for (const id of second)
      expect(await readRow(database, id)).toMatchObject({
        status: "done",
        result: isForgotten ? "again" : "late",
        crashes: 0,
      });
    await late.close();
  } finally {
    await server.stop();
  }
}, 60_000);
