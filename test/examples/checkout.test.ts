// The tour of examples/checkout/README.md, command by command, against the real service.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { freePort } from "../support/server.js";
import { until } from "../support/until.js";

const database = await createDatabase();
const folder = mkdtempSync(join(tmpdir(), "gen-durable-checkout-"));
let shop: ChildProcess | undefined;

afterAll(async () => {
  shop?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

interface Command {
  text: string;
  /** What the README says that it prints. */
  expected: string;
}

/** The commands of every console block, in order. */
function readTour(): Command[] {
  const readme = readFileSync("examples/checkout/README.md", "utf8");
  const blocks = [...readme.matchAll(/^```console\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .filter((part) => part !== "")
      .map((part) => {
        const [text = "", ...printed] = part.trimEnd().split("\n");
        return { text, expected: printed.join("\n") };
      }),
  );
}

const START = /^(?:(\w+)=(\S+) )?npm run checkout$/;

/** Opens the shop as the package's script does, less its build; one that is open is closed as Ctrl-C closes it. */
async function openShop(port: number, env: Record<string, string>): Promise<void> {
  await closeShop();
  const child = spawn(process.execPath, [resolve("scripts/run.mjs"), resolve("examples/checkout/main.ts")], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env, PORT: String(port), GEN_DURABLE_DATABASE_URL: database.url },
  });
  shop = child;
  let printed = "";
  const collect = (text: string): void => {
    printed += text;
  };
  child.stdout?.setEncoding("utf8").on("data", collect);
  child.stderr?.setEncoding("utf8").on("data", collect);
  await until(() => printed.includes("the shop is open") || child.exitCode !== null, {
    timeoutMs: 40_000,
    describe: () => `the shop opens; it printed:\n${printed}`,
  });
  if (child.exitCode !== null) throw new Error(`the shop ended at its start:\n${printed}`);
}

/** Ctrl-C: it drains and ends with 0. */
async function closeShop(): Promise<void> {
  if (shop === undefined) return;
  const ended = new Promise((resolve) => shop?.once("exit", resolve));
  shop.kill("SIGINT");
  expect(await ended).toBe(0);
  shop = undefined;
}

test("every command of the tour prints what the README says", async () => {
  const { checkout } = JSON.parse(readFileSync("package.json", "utf8")).scripts;
  expect(checkout).toContain("node scripts/run.mjs examples/checkout/main.ts");
  const port = await freePort();
  const tour = readTour();
  expect(tour.length).toBeGreaterThan(15);
  for (const { text, expected } of tour) {
    const start = START.exec(text);
    if (start !== null) {
      const [, name, value = ""] = start;
      await openShop(port, name === undefined ? {} : { [name]: value });
      continue;
    }
    const command = text.replaceAll("localhost:8080", `127.0.0.1:${port}`);
    const { stdout } = await promisify(execFile)("sh", ["-c", command]);
    expect(`$ ${text}\n${stdout.trimEnd()}`).toBe(`$ ${text}\n${expected}`);
  }
  await closeShop();
}, 120_000);
