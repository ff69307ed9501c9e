// What a process has started goes with it, however it ends.
import { spawn } from "node:child_process";
import { mkdtempSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "@jest/globals";
import { until } from "../support/until.js";

test("K1, K2: SIGKILL of a process ends what it has started, removes the folder, and harms nobody else", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gen-durable-test-kept-"));
  const parent = spawn(process.execPath, ["scripts/run.mjs", "test/harness/keeping.ts", folder], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const started = await new Promise<number>((resolve) =>
    createInterface({ input: parent.stdout }).once("line", (line) => resolve(Number(line))),
  );
  expect(isAlive(started)).toBe(true);
  parent.kill("SIGKILL");
  await until(() => !isAlive(started), { describe: "the process has ended" });
  await until(() => statSync(folder, { throwIfNoEntry: false }) === undefined, {
    describe: "the folder is gone",
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
