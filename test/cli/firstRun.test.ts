// What a stranger does first, in an empty folder without a database: init, start, insert, look, Ctrl-C.

import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { afterAll, expect, jest, test } from "@jest/globals";
import { stopEmbedded } from "#cli/embedded/attach.js";
import { until } from "../support/until.js";
import { serverPid } from "./attachedProcess.js";
import { environment, folderWith, removeFolders, runCommand } from "./command.js";

jest.setTimeout(120_000);

const folder = folderWith({});
const started = new Set<Start>();

afterAll(async () => {
  for (const start of started) start.signal("SIGKILL");
  await stopEmbedded(folder, { force: true }).catch(() => undefined);
  removeFolders();
});

/** `gen-durable start` in a process group of its own, as a shell would start it. */
class Start {
  readonly #child: ChildProcess;
  stderr = "";
  readonly exited: Promise<number | null>;

  constructor(...flags: string[]) {
    this.#child = spawn(process.execPath, [resolve("packages/cli/bin/gen-durable.js"), "start", ...flags], {
      cwd: folder,
      env: environment(),
      detached: true,
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    started.add(this);
    this.exited = new Promise((done) => {
      this.#child.once("close", (code) => {
        started.delete(this);
        done(code);
      });
    });
  }

  /** To the whole group, as a terminal's Ctrl-C is. */
  signal(signal: NodeJS.Signals): void {
    process.kill(-Number(this.#child.pid), signal);
  }

  async logged(text: string): Promise<void> {
    await until(
      () => {
        if (this.#child.exitCode !== null && !this.stderr.includes(text)) throw new Error(this.stderr);
        return this.stderr.includes(text);
      },
      { timeoutMs: 40_000, describe: () => `"${text}" in:\n${this.stderr}` },
    );
  }
}

test("init writes a project that runs, and never overwrites", async () => {
  const first = await runCommand(["init"], { cwd: folder });
  expect(first).toMatchObject({ code: 0, stderr: "" });
  expect(first.stdout).toContain("npx gen-durable start");
  const second = await runCommand(["init"], { cwd: folder });
  expect(second.code).toBe(1);
  expect(second.stderr).toContain("is there already");
});

test("start makes a Postgres of the folder's own; other commands join it; Ctrl-C ends everything", async () => {
  const node = new Start();
  await node.logged("the node is running");
  expect(node.stderr).toContain("because no database is configured");
  expect(node.stderr).not.toMatch(/postgres:[0-9a-f]{8}/);
  expect(serverPid(folder)).toEqual(expect.any(Number));

  const inserted = await runCommand(["insert", "hello", '{"name": "durable"}', "--key", "first"], {
    cwd: folder,
  });
  expect(inserted).toMatchObject({ code: 0, stdout: "1\n" });
  const [unknown, wrong, piped] = await Promise.all([
    runCommand(["insert", "helo"], { cwd: folder }),
    runCommand(["insert", "hello", "7"], { cwd: folder }),
    runCommand(["insert", "hello", "-", "--json", "--delay-ms", "3600000"], {
      cwd: folder,
      stdin: '{"name": "pipe"}',
    }),
  ]);
  expect(unknown).toMatchObject({ code: 2, stdout: "" });
  expect(unknown.stderr).toContain('did you mean "hello"?');
  expect(wrong.code).toBe(2);
  expect(JSON.parse(piped.stdout)).toMatchObject({ ok: true });

  await node.logged("Hello, durable!");
  const [status, url] = await Promise.all([
    runCommand(["status", "--json"], { cwd: folder }),
    runCommand(["db", "url"], { cwd: folder }),
  ]);
  const report = JSON.parse(status.stdout) as { nodes: object[]; stalled: object[] };
  expect(report.nodes).toMatchObject([{ isAlive: true, queues: ["default"] }]);
  expect(report.stalled).toEqual([]);
  expect(url.stdout).toMatch(/^postgres:\/\/postgres:[0-9a-f]{48}@127\.0\.0\.1:\d+\/postgres\n$/);

  node.signal("SIGINT");
  expect({ code: await node.exited, stderr: node.stderr }).toMatchObject({ code: 0 });
  expect(serverPid(folder)).toBeUndefined();
});

test("--once ends by itself; a node whose Postgres is killed goes on", async () => {
  expect((await runCommand(["insert", "hello"], { cwd: folder })).code).toBe(0);
  const once = new Start("--once");
  expect(await once.exited).toBe(0);
  expect(serverPid(folder)).toBeUndefined();

  const node = new Start();
  await node.logged("the node is running");
  process.kill(Number(serverPid(folder)), "SIGKILL");
  await node.logged("the embedded Postgres is back");
  expect((await runCommand(["insert", "hello", '{"name": "again"}'], { cwd: folder })).code).toBe(0);
  await node.logged("Hello, again!");
  node.signal("SIGTERM");
  expect({ code: await node.exited, stderr: node.stderr }).toMatchObject({ code: 0 });
  expect(serverPid(folder)).toBeUndefined();
});
