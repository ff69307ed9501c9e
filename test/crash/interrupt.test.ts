// Ctrl-C, as a terminal sends it: SIGINT to every process of the foreground group, the embedded Postgres not among them.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "@jest/globals";
import pg from "pg";
import { until } from "../support/until.js";

const BIN = resolve("packages/cli/bin/gen-durable.js");
const folder = mkdtempSync(join(tmpdir(), "gen-durable-interrupt-"));
// The embedded server of a root process runs as another user, who must be able to enter.
chmodSync(folder, 0o755);
const { GEN_DURABLE_DATABASE_URL: _url, DATABASE_URL: _other, ...env } = process.env;
const groups: ChildProcess[] = [];

afterAll(() => {
  for (const { pid, exitCode } of groups)
    if (pid !== undefined && exitCode === null) process.kill(-pid, "SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** Starts a node as the shell of a terminal does: in a process group of its own, behind a shell. */
function startGroup(): { child: ChildProcess; log: () => string; exit: Promise<number | null> } {
  // The shell gets the signal as well; its trap runs when the node has ended, and it passes the node's status on.
  const command = `trap : INT; "${process.execPath}" "${BIN}" start --workers 1; exit $?`;
  const child = spawn("sh", ["-c", command], {
    cwd: folder,
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
    env,
  });
  groups.push(child);
  let log = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  const exit = new Promise<number | null>((done) => child.once("close", (code) => done(code)));
  return { child, log: () => log, exit };
}

async function call(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [BIN, ...args], { cwd: folder, env });
  return stdout;
}

/** The status of every instance, read from the embedded server. */
async function statuses(): Promise<string[]> {
  const client = new pg.Client({ connectionString: (await call("db", "url")).trim() });
  await client.connect();
  try {
    return (await client.query<{ status: string }>("SELECT status FROM gen_durable.gen_durable")).rows.map(
      ({ status }) => status,
    );
  } finally {
    await client.end();
  }
}

test("Ctrl-C to the whole foreground group drains: the running step ends, the exit status is 0", async () => {
  writeFileSync(
    join(folder, "gen-durable.config.mjs"),
    `export default { drainTimeoutMs: 20000, fsms: [${JSON.stringify(resolve("test/support/probes/basic.ts"))}] };\n`,
  );
  const { child, log, exit } = startGroup();
  await until(() => log().includes("the node is running") || child.exitCode !== null, {
    timeoutMs: 40_000,
    describe: () => `the node runs; it logged:\n${log()}`,
  });
  await call("insert", "sleeper", '{"ms": 3000}');
  await until(async () => (await statuses())[0] === "executing", { describe: "the step runs" });
  process.kill(-(child.pid ?? 0), "SIGINT");
  const code = await exit;
  expect({ code, log: log() }).toMatchObject({ code: 0 });

  const again = startGroup();
  await until(() => again.log().includes("the node is running"), { timeoutMs: 40_000 });
  expect(await statuses()).toEqual(["done"]);
  process.kill(-(again.child.pid ?? 0), "SIGTERM");
  await again.exit;
}, 240_000);
