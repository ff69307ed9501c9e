// Command: one run of the command line in a process of its own, to its end.

import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

const BIN = resolve("packages/cli/bin/gen-durable.js");
/** What the test run's own environment says about databases and colours must not reach a command. */
const OTHERS = /^(GEN_DURABLE_|PG|DATABASE_URL$|NO_COLOR$|FORCE_COLOR$|NODE_ENV$)/;

export interface CommandRun {
  cwd: string;
  env?: Record<string, string>;
  stdin?: string;
}

export interface CommandResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs `gen-durable <args>`. */
export function runCommand(args: readonly string[], { cwd, env, stdin }: CommandRun): Promise<CommandResult> {
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, [BIN, ...args], { cwd, env: environment(env) });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.on("error", fail);
    child.on("close", (code) => done({ code, stdout, stderr }));
    child.stdin.end(stdin ?? "");
  });
}

/** The environment of a command: this process's without what would steer it, and `more`. */
export function environment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !OTHERS.test(name));
  return { ...Object.fromEntries(kept), ...more };
}

const folders = new Set<string>();

/** A folder with these files. */
export function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "gen-durable-cli-"));
  // The user that Postgres runs as must be able to enter it.
  chmodSync(folder, 0o755);
  folders.add(folder);
  writeFiles(folder, files);
  return folder;
}

export function writeFiles(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

export function removeFolders(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
