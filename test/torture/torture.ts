// Torture: runs a command of the harness in a process of its own, as anybody would.

import { spawn } from "node:child_process";

export interface Told {
  status: number | null;
  output: string;
}

/** Runs `torture/<file>` with arguments; its server and nodes end with it, however it ends. */
export function torture(file: string, args: readonly string[]): Promise<Told> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ["scripts/run.mjs", `torture/${file}`, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    child.once("close", (status) => resolve({ status, output }));
  });
}
