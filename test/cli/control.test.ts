// The commands that look at a database and act on it, without a node.

import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { insertExecuting, insertRow, insertRows, insertSignal, readRow } from "../support/rows.js";
import { type CommandResult, environment, folderWith, removeFolders, runCommand } from "./command.js";

jest.setTimeout(60_000);
afterAll(removeFolders);

const folder = folderWith({});
let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  await database.query("INSERT INTO fsms VALUES ('plain', 1, 'default', 'start', '{start}', NULL)");
});

function run(...args: string[]): Promise<CommandResult> {
  return runCommand(args, { cwd: folder, env: { DATABASE_URL: database.url } });
}

async function runJson<T>(...args: string[]): Promise<T> {
  const { stdout, stderr } = await run(...args, "--json");
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout) as T;
}

test("migrate says what it did; without a schema the others say what to do", async () => {
  const empty = await createDatabase({ empty: true });
  const env = { DATABASE_URL: empty.url };
  const missing = await runCommand(["status"], { cwd: folder, env });
  expect(missing.code).toBe(1);
  expect(missing.stderr).toContain("run `gen-durable migrate`");
  const flags = ["migrate", "--schema", 'My "Jobs"', "--json"];
  const [first, second] = await Promise.all([
    runCommand(flags, { cwd: folder, env }),
    runCommand(flags, { cwd: folder, env }),
  ]);
  const applied = [first, second].map(({ stdout }) => (JSON.parse(stdout) as { applied: string[] }).applied);
  expect(applied.map(({ length }) => length > 0).sort()).toEqual([false, true]);
});

test("status counts by queue, and says what no node will take and why", async () => {
  await database.query(
    "INSERT INTO nodes (id, instance, hostname, boot_id, pid, version, queues, fsms, fsm_versions, heartbeat_at) VALUES " +
      "('n1', 'one', 'host', '', 1, '0.1.0', '{default}', '{plain}', '{1}', clock_timestamp() + interval '1 hour'), " +
      "('n2', 'two', 'host', '', 2, '0.1.0', '{mail}', '{plain}', '{2}', clock_timestamp() - interval '1 minute')",
  );
  await database.query("INSERT INTO fsms VALUES ('plain', 3, 'default', 'start', '{start}', NULL)");
  await insertRow(database, { fsm_version: 3 });
  await insertRows(database, 3);
  await insertRow(database, { eligibleInMs: 3_600_000 });
  await insertRow(database, { fsm: "ghost" });
  await insertRow(database, { fsm_version: 2 });
  await insertRow(database, { queue: "mail" });
  await insertRow(database, { rate_limit: "stripe:1" });
  await insertExecuting(database, "n1/1");
  await insertExecuting(database, "n2/7", { leaseInMs: -1_000 });
  const status = await runJson<Record<string, Record<string, unknown>[]>>("status");
  expect(status.queues).toMatchObject([
    { queue: "default", due: 7, counts: { runnable: 8, executing: 2, done: 0 } },
    { queue: "mail", due: 1, counts: { runnable: 1, executing: 0 } },
  ]);
  expect(status.nodes).toMatchObject([
    { id: "n1", isAlive: true, executing: 1 },
    { id: "n2", isAlive: false, executing: 1 },
  ]);
  expect(
    status.stalled?.map(({ reason, fsm, version, queue, detail }) => [reason, fsm, version, queue, detail]),
  ).toEqual([
    ["lease_expired", "plain", 1, "default", "n2"],
    ["unknown_fsm", "ghost", 1, "default", null],
    ["unknown_fsm", "plain", 2, "default", null],
    ["unknown_rate_limit", "plain", 1, "default", "stripe:1"],
    ["unloaded_fsm", "plain", 3, "default", null],
    ["unserved_queue", "plain", 1, "mail", null],
  ]);
  const text = await run("status");
  expect(text.stdout).toContain("no node has ever loaded this machine in this version");
  expect(text.stdout).not.toContain(new URL(database.url).password || "\u0000");

  const versions = await runJson<Record<string, unknown>[]>("versions");
  expect(
    versions.map(({ fsm, version, state, live, knownBy }) => [fsm, version, state, live, knownBy]),
  ).toEqual([
    ["ghost", 1, "orphaned", 1, 0],
    ["plain", 1, "in use", 8, 1],
    ["plain", 2, "orphaned", 1, 0],
    ["plain", 3, "orphaned", 1, 0],
  ]);
  await database.query("UPDATE gen_durable SET status = 'failed' WHERE fsm_version > 1");
  await database.query("DELETE FROM gen_durable WHERE fsm_version = 2");
  expect(
    (await runJson<typeof versions>("versions", "plain")).map(({ version, state }) => [version, state]),
  ).toEqual([
    [1, "in use"],
    [3, "newest"],
  ]);
  const misspelt = await run("versions", "plian", "--json");
  expect(misspelt).toMatchObject({ code: 1, stdout: "" });
  expect(misspelt.stderr).toContain('no machine is named "plian"');
  await database.query("DELETE FROM gen_durable WHERE fsm_version = 1");
  const table = (await run("versions", "plain")).stdout.split("\n");
  expect(table[0]).toMatch(/^MACHINE +VERSION +STATE/);
  expect(table[1]).toMatch(/^plain +1 +idle/);
  await database.query("TRUNCATE gen_durable, nodes CASCADE");
});

test("list pages and filters, show tells everything", async () => {
  const ids = await insertRows(database, 5);
  const failed = await insertRow(database, {
    status: "failed",
    last_error: "first line\nsecond line",
    state: { order: 42 },
    correlation_key: "order:42",
    correlation_scope: ["failed"],
  });
  await insertSignal(database, failed, "paid", { amount: 1 });
  const page = await runJson<{ instances: { id: number }[]; next: number | null }>("list", "--limit", "4");
  expect(page.instances.map(({ id }) => id)).toEqual([failed, ...ids.slice(2).reverse()]);
  const rest = await runJson<typeof page>("list", "--limit", "4", "--after", String(page.next));
  expect(rest.instances.map(({ id }) => id)).toEqual(ids.slice(0, 2).reverse());
  expect((await run("list", "--status", "failed,done")).stdout.trim().split("\n")).toHaveLength(2);
  expect((await run("list", "--status", "lost")).code).toBe(2);

  const shown = await runJson<Record<string, unknown>>("show", "order:42");
  expect(shown).toMatchObject({
    id: failed,
    state: { order: 42 },
    inbox: [{ name: "paid", payload: { amount: 1 } }],
  });
  const text = (await run("show", String(failed))).stdout;
  for (const part of ["second line", '"order": 42', "paid", "order:42"]) expect(text).toContain(part);
  const nobody = await run("show", "999999");
  expect(nobody).toMatchObject({ code: 1, stdout: "" });
  expect(nobody.stderr).toContain("there is no instance 999999");
});

test("retry, cancel and signal act, and their status says when they did not", async () => {
  const failed = await insertRow(database, { status: "failed", attempt: 3 });
  const done = await insertRow(database, { status: "done" });
  const waiting = await insertRow(database, {
    status: "awaiting_signal",
    awaits: ["paid"],
    correlation_key: "order:7",
    correlation_scope: ["awaiting_signal"],
  });
  const retried = await run("retry", String(failed), String(done));
  expect(retried).toMatchObject({
    code: 1,
    stdout: `${failed} runs again\n${done} refused: it has not failed\n`,
  });
  expect(await readRow(database, failed)).toMatchObject({ status: "runnable", attempt: 0 });

  expect(await run("signal", "order:7", "paid", '{"amount": 1}')).toMatchObject({
    code: 0,
    stdout: "stored\n",
  });
  expect((await readRow(database, waiting)).status).toBe("runnable");
  const nobody = await run("signal", "order:8", "paid");
  expect(nobody.code).toBe(1);
  expect(nobody.stderr).toContain('no live instance is "order:8"');

  const cancelled = await run("cancel", String(waiting), String(done), "999999", "--reason", "ordered twice");
  expect(cancelled.code).toBe(1);
  expect(cancelled.stdout).toBe(
    `${waiting} cancelled\n${done} has ended before, and stays as it was\n999999 is no instance\n`,
  );
  expect((await readRow(database, waiting)).last_error).toContain("ordered twice");

  // By key, as show and signal take them.
  const key = { correlation_key: "7", correlation_scope: ["runnable", "failed"] as const };
  const keyed = await insertRow(database, { ...key });
  expect((await run("cancel", "7", "--by-key")).stdout).toBe("7 cancelled\n");
  expect((await run("retry", "7", "nobody", "--by-key")).stdout).toBe(
    "7 runs again\nnobody refused: there is no such instance\n",
  );
  expect(await readRow(database, keyed)).toMatchObject({ status: "runnable", attempt: 0 });
});

test("insert answers a taken key with its occupant", async () => {
  const first = await runJson<{ id: number }>("insert", "plain", "{}", "--key", "only", "--priority", "-5");
  expect(await readRow(database, first.id)).toMatchObject({ priority: -5, correlation_key: "only" });
  const second = await run("insert", "plain", "--key", "only");
  expect(second).toMatchObject({ code: 1, stdout: `duplicate of ${first.id}\n` });
  const many = await runJson<{ ok: boolean }[]>("insert", "plain", "--count", "20");
  expect(many.filter(({ ok }) => ok)).toHaveLength(20);
});

test("a reader that has seen enough is no failure", async () => {
  await insertRows(database, 3_000);
  const child = spawn(
    "/bin/sh",
    [
      "-c",
      `"${process.execPath}" "${resolve("packages/cli/bin/gen-durable.js")}" list --json -n 3000 | head -n 1`,
    ],
    { cwd: folder, env: environment({ DATABASE_URL: database.url }) },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  await new Promise((closed) => child.once("close", closed));
  expect(output).toBe("{\n");
});
