// A deploy: four nodes of different roles and two versions are replaced one after the other, under load. Who calls sees
// nothing of it.

import { beforeAll, expect, test } from "@jest/globals";
import { folderWith, runCommand } from "../cli/command.js";
import { createAudit, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { insertRow, readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { rollOut } from "./rolling.js";

const database = await createDatabase();

beforeAll(() => createAudit(database));

test("no instance fails, no step runs twice, every caller gets its answer; and `versions` says what can go", async () => {
  const { answers, exits, complaints } = await rollOut(database, { rounds: 1, perSecond: 20 });
  expect(exits).toEqual([0, 0, 0, 0]);
  expect(complaints).toEqual([]);
  expect(answers.length).toBeGreaterThan(20);
  expect(answers.filter(({ status }) => status !== "done")).toEqual([]);
  const versions = new Set(answers.map(({ result }) => Reflect.get(Object(result), "version")));
  expect([...versions].sort()).toEqual([1, 2]);

  const audit = await readAudit(database);
  const visits = audit.map(({ instance, step }) => `${instance} ${step}`);
  expect(visits.length - new Set(visits).size).toBe(0);
  expect(audit.filter(({ left_at }) => left_at === null)).toEqual([]);
  expect(
    await database.query(
      "SELECT id, status, attempt, crashes, reaps FROM gen_durable WHERE status <> 'done' OR attempt + crashes + reaps > 0",
    ),
  ).toEqual([]);
  // Every slot that was taken was given back.
  expect(
    await database.query("SELECT key FROM gen_durable_buckets WHERE available + debt <> capacity"),
  ).toEqual([]);

  const listed = await runCommand(["versions", "--json"], {
    cwd: folderWith({}),
    env: { DATABASE_URL: database.url },
  });
  expect(JSON.parse(listed.stdout)).toMatchObject([
    { fsm: "order", version: 1, state: "idle", live: 0, oldestMs: null, knownBy: 3 },
    { fsm: "order", version: 2, state: "newest", live: 0, knownBy: 3 },
    { fsm: "parcel", version: 1, state: "newest", live: 0, knownBy: 3 },
  ]);
}, 180_000);

test("PICK-13, PICK-14: what no node knows waits untouched and shows; a state that fits no more ends at handle, once", async () => {
  const unknown = await insertRow(database, {
    fsm: "order",
    fsm_version: 3,
    step: "receive",
    state: { n: 1 },
  });
  const misfit = await insertRow(database, {
    fsm: "order",
    fsm_version: 2,
    step: "receive",
    state: { n: "one" },
  });
  const gone = await insertRow(database, { fsm: "order", fsm_version: 2, step: "take", state: { n: 1 } });
  await until(async () => (await readRow(database, gone)).status === "failed");
  await until(async () => (await readRow(database, misfit)).status === "failed");
  expect(await readRow(database, misfit)).toMatchObject({
    attempt: 0,
    visit: 2,
    last_error: expect.stringMatching(/the stored state does not fit order v2: .*state\.n/),
  });
  expect(await readRow(database, gone)).toMatchObject({
    last_error: expect.stringContaining('no step "take"'),
  });
  expect(await readRow(database, unknown)).toMatchObject({
    status: "runnable",
    attempt: 0,
    visit: 1,
    reaps: 0,
    locked_by: null,
  });
  const status = await runCommand(["status"], { cwd: folderWith({}), env: { DATABASE_URL: database.url } });
  expect(status.stdout).toContain("1 instance of order version 3");
}, 60_000);
