// The demo on the embedded Postgres, which is killed under it.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "@jest/globals";
import { seededRandom } from "../support/seed.js";
import { until } from "../support/until.js";
import { outputOf, startDemo, temporaryFolder, writeFiles } from "./demoRun.js";

const FILES = 200;

/** The postmaster's pid, from the pid file that Postgres writes; undefined while there is none. */
function postmasterPid(folder: string): number | undefined {
  try {
    return Number(
      readFileSync(join(folder, ".gen-durable/postgres/data/postmaster.pid"), "utf8").split("\n")[0],
    );
  } catch {
    return undefined;
  }
}

test("SIGKILL of the embedded Postgres: the demo brings it back and finishes", async () => {
  const folder = temporaryFolder();
  writeFiles(folder, FILES, seededRandom("demo, embedded"));
  const run = startDemo(folder, { flags: ["--flaky", "10"] });
  let printed = "";
  const collect = (text: string): void => {
    printed += text;
  };
  run.child.stdout?.on("data", collect);
  run.child.stderr?.on("data", collect);
  await until(() => printed.includes(`${FILES} new`) || run.child.exitCode !== null, { timeoutMs: 40_000 });
  const pid = postmasterPid(folder);
  if (pid === undefined) throw new Error(`no server runs in the folder; the demo printed:\n${printed}`);
  process.kill(pid, "SIGKILL");
  const output = await outputOf(run);
  expect(output).toContain(`instances ${FILES} (0 failed)`);
  expect(output).toContain(`index: ${FILES} files`);
  // The last one out stops the server.
  await until(() => postmasterPid(folder) === undefined, { describe: "the embedded server has stopped" });
}, 240_000);
