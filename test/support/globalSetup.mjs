// One Postgres a jest run, and in it a template database that is migrated once. Test files clone it (database.ts).
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { bundle } from "../../scripts/run.mjs";

const START_TIMEOUT_MS = 120_000;

export default async function setup() {
  const [server, template] = await Promise.all([
    bundle("test/support/serverProcess.ts"),
    bundle("test/support/template.ts"),
  ]);
  const child = spawn(process.execPath, ["--enable-source-maps", server], {
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
  });
  const facts = await firstLine(child);
  // Neither the process nor its pipes keep jest alive; the pipe's end is what stops the server.
  child.unref();
  child.stdin.unref();
  child.stdout.unref();
  globalThis.genDurableTestServer = child;
  const { createTemplate } = await import(pathToFileURL(template).href);
  process.env.GEN_DURABLE_TEST_SERVER = JSON.stringify({
    ...JSON.parse(facts),
    template: await createTemplate(JSON.parse(facts)),
  });
  for (const path of [server, template]) rmSync(dirname(path), { recursive: true, force: true });
}

function firstLine(child) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("Postgres did not start in time")), START_TIMEOUT_MS);
    child.once("exit", (code) => reject(new Error(`the test server ended with ${code}`)));
    createInterface({ input: child.stdout }).once("line", (line) => {
      clearTimeout(timer);
      resolve(line);
    });
  });
}
