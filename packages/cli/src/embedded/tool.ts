// Tool: one run of a Postgres program (initdb, pg_ctl), to its end.

import { spawn } from "node:child_process";
import type { Account } from "./account.js";

/** Enough for any message of initdb or pg_ctl; more is not kept. */
const OUTPUT_CHARS_MAX = 64 * 1024;

/** What a program has written is read within this time after its end. */
const PIPE_GRACE_MS = 250;

export interface ToolRun {
  file: string;
  args: readonly string[];
  /** A folder that the account can enter. */
  cwd: string;
  account: Account | undefined;
}

export interface ToolResult {
  /** null: it could not be started, or a signal ended it. */
  status: number | null;
  output: string;
}

/** Runs the program in a session of its own, so that a terminal's Ctrl-C reaches neither it nor what it starts. Never rejects. */
export function runTool({ file, args, cwd, account }: ToolRun): Promise<ToolResult> {
  return new Promise((resolve) => {
    let output = "";
    const child = spawn(file, args, {
      cwd,
      detached: true,
      windowsHide: true,
      env: environment(),
      stdio: ["ignore", "pipe", "pipe"],
      ...(account === undefined ? {} : { uid: account.uid, gid: account.gid }),
    });
    const collect = (chunk: Buffer): void => {
      if (output.length < OUTPUT_CHARS_MAX) output += chunk.toString();
    };
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    child.on("error", (error) => resolve({ status: null, output: `${file}: ${error.message}` }));
    child.on("close", (status) => resolve({ status, output: output.trim() }));
    // On some systems the server inherits the pipes and keeps them open for its life.
    child.on("exit", (status) => {
      setTimeout(() => resolve({ status, output: output.trim() }), PIPE_GRACE_MS).unref();
    });
  });
}

/** The caller's PG* variables are about his database, and must not reach the server's programs. */
function environment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(PG|LC_|LANG|LD_LIBRARY_PATH)/.test(name),
  );
  return { ...Object.fromEntries(inherited), LC_ALL: "C" };
}
