// L1 of packages/cli/src/logs.ts: a log's reader never holds the process up.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, jest, test } from "@jest/globals";

jest.setTimeout(30_000);

const LOGS = pathToFileURL(resolve("packages/cli/dist/cli/logs.js")).href;

test("L1: a reader that does not read costs lines, which are counted, and not the process's time", async () => {
  const child = spawn(process.execPath, [
    "--input-type=module",
    "-e",
    `import { createLog } from "${LOGS}";
     const log = createLog({ format: "json" });
     for (let line = 0; line < 60_000; line++) log.write("info", "line " + line);
     process.stdout.write("alive");
     process.stdin.once("data", async () => { await log.flush(); log.write("info", "last"); await log.flush(); });
     process.stdin.once("data", () => process.stdin.unref());`,
  ]);
  expect(String((await once(child.stdout, "data"))[0])).toBe("alive");
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdin.end("go");
  const [code] = (await once(child, "close")) as [number];
  expect(code).toBe(0);
  const messages = stderr
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { msg: string }).msg);
  const kept = messages.filter((message) => message.startsWith("line ")).length;
  const dropped = Number(
    /^(\d+) log lines were dropped/.exec(messages.find((it) => it.includes("dropped")) ?? "")?.[1],
  );
  expect(kept + dropped).toBe(60_000);
  expect(messages.at(-1)).toMatch(/^last$|dropped/);
});

test("a reader that has gone away ends the writing, not the process", async () => {
  const child = spawn(process.execPath, [
    "--input-type=module",
    "-e",
    `import { createLog } from "${LOGS}";
     process.stdin.once("data", async () => {
       const log = createLog({ format: "json" });
       for (let line = 0; line < 5_000; line++) log.write("info", "line " + line);
       await log.flush();
       process.stdout.write("alive");
       process.exit(7);
     });`,
  ]);
  child.stderr.destroy();
  child.stdin.end("go");
  const [code] = (await once(child, "close")) as [number];
  expect(code).toBe(7);
});
