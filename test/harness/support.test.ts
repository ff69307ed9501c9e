import { expect, test } from "@jest/globals";
import { Connection } from "#core/database/connection.js";
import { createDatabase } from "../support/database.js";
import { readHistory, recordHistory } from "../support/history.js";
import {
  countStatuses,
  insertExecuting,
  insertRow,
  insertRows,
  insertSignal,
  readRow,
} from "../support/rows.js";
import { logStatements, markStatements, statementsSince } from "../support/statements.js";
import { until } from "../support/until.js";

const database = await createDatabase();

test("row factories write any state", async () => {
  const id = await insertExecuting(database, "n1/1", { state: { n: 1 }, leaseInMs: -1_000 });
  expect(await readRow(database, id)).toMatchObject({
    status: "executing",
    locked_by: "n1/1",
    state: { n: 1 },
  });
  await insertRows(database, 3, { queue: "other" });
  await insertSignal(database, id, "go", { v: 1 });
  expect(await countStatuses(database)).toEqual({ executing: 1, runnable: 3 });
});

test("the history holds every version, and one transaction's changes share an xid", async () => {
  await recordHistory(database);
  const id = await insertRow(database, {});
  await database.query("UPDATE gen_durable SET status = 'done' WHERE id = $1", [id]);
  const history = await readHistory(database, id);
  expect(history.map((entry) => [entry.op, entry.status])).toEqual([
    ["INSERT", "runnable"],
    ["UPDATE", "done"],
  ]);
  expect(history[0]?.xid).not.toBe(history[1]?.xid);
});

test("statements of the engine's sessions are counted, the test's own are not", async () => {
  await logStatements(database);
  const connection = await Connection.open(database.settings(), { role: "probe" });
  const mark = markStatements(database);
  await connection.run({ name: "answer", text: "SELECT 42" });
  await connection.run({ name: "answer", text: "SELECT 42" });
  await database.query("SELECT 1");
  const seen = await until(() => {
    const statements = statementsSince(database, mark);
    return statements.length >= 2 && statements;
  });
  expect(seen).toEqual(
    Array(2).fill({ application: "gen-durable probe", text: "SELECT 42", name: "answer" }),
  );
  await connection.close();
});

test("until says what it waited for", async () => {
  await expect(until(() => 0, { timeoutMs: 20, describe: "the sun" })).rejects.toThrow(
    "not within 20 ms: the sun",
  );
});
