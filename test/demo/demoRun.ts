// DemoRun: `npm run demo`'s own command in a process of its own, on a folder of files that the test has written.

import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll } from "@jest/globals";
import { countWords, splitWords } from "../../examples/ingest/words.js";
import type { TestDatabase } from "../support/database.js";
import type { Random } from "../support/seed.js";

const running = new Set<ChildProcess>();
const folders: string[] = [];

afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** A folder under the OS's temp folder that goes with the test file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "gen-durable-demo-"));
  // The embedded server of a root process runs as another user, who must be able to enter.
  chmodSync(folder, 0o755);
  folders.push(folder);
  return folder;
}

/** Writes text files of random words, and returns the words' counts by path. */
export function writeFiles(folder: string, count: number, random: Random): Map<string, [string, number][]> {
  const texts = join(folder, "texts");
  mkdirSync(texts);
  const expected = new Map<string, [string, number][]>();
  for (let n = 0; n < count; n++) {
    const words = Array.from(
      { length: 20 + (n % 80) },
      () => `w${Math.floor(random.between(0, 200)).toString(36)}`,
    );
    const path = join(texts, `${String(n).padStart(4, "0")}.md`);
    writeFileSync(path, `${words.join(" ")}\n`);
    expected.set(path, countWords(splitWords(words.join(" "))));
  }
  return expected;
}

export interface DemoRun {
  readonly child: ChildProcess;
  /** The exit, with everything printed. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; output: string }>;
}

/** Starts the demo on the folder's texts. Without a database it uses the embedded server of the folder. */
export function startDemo(
  folder: string,
  options: { url?: string; flags?: readonly string[] } = {},
): DemoRun {
  const { GEN_DURABLE_DATABASE_URL: _url, DATABASE_URL: _other, ...env } = process.env;
  const child = spawn(
    process.execPath,
    [
      resolve("scripts/run.mjs"),
      resolve("examples/ingest/demo.ts"),
      join(folder, "texts"),
      ...(options.flags ?? []),
    ],
    {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...env, ...(options.url === undefined ? {} : { GEN_DURABLE_DATABASE_URL: options.url }) },
    },
  );
  running.add(child);
  let output = "";
  const collect = (text: string): void => {
    output += text;
  };
  child.stdout?.setEncoding("utf8").on("data", collect);
  child.stderr?.setEncoding("utf8").on("data", collect);
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null; output: string }>(
    (done) => {
      child.once("close", (code, signal) => {
        running.delete(child);
        done({ code, signal, output });
      });
    },
  );
  return { child, ended };
}

/** The index as the database holds it, in the form of `writeFiles`. */
export async function readIndex(database: TestDatabase): Promise<Map<string, [string, number][]>> {
  const rows = await database.query<{ path: string; counts: [string, number][] }>(
    `SELECT f.path, coalesce(json_agg(json_build_array(w.word, w.count) ORDER BY w.count DESC, w.word COLLATE "C")
                               FILTER (WHERE w.word IS NOT NULL), '[]') AS counts
     FROM ingest.files f LEFT JOIN ingest.words w ON w.path = f.path GROUP BY f.path ORDER BY f.path`,
  );
  return new Map(rows.map((row) => [row.path, row.counts]));
}

/** How many files the index holds; 0 before its tables are there. */
export async function countIndexed(database: TestDatabase): Promise<number> {
  const [found] = await database.query<{ there: boolean }>(
    "SELECT to_regclass('ingest.files') IS NOT NULL AS there",
  );
  if (found?.there !== true) return 0;
  return (await database.one<{ n: number }>("SELECT count(*) AS n FROM ingest.files")).n;
}

/** Everything the demo printed. @throws with it when the demo did not end with status 0 */
export async function outputOf(run: DemoRun): Promise<string> {
  const { code, signal, output } = await run.ended;
  if (code !== 0) throw new Error(`the demo ended with ${code ?? signal}:\n${output}`);
  return output;
}
