// The demo: `npm run demo [-- [folder] [--limit n] [--flaky percent]]` and `npm run demo -- search <word>...`.
// It starts a node in this process, inserts one instance a file, and waits for them all. Kill it at any moment and run it
// again: what was inserted is found by its correlation key, what was finished stays finished, the rest goes on where it was.

import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type Client, createClient, type NodeLog, startNode } from "gen-durable";
import { findFiles, keyOf, shownPath } from "./files.js";
import { ingest } from "./fsms/ingest.js";
import config from "./gen-durable.config.js";
import { Progress } from "./progress.js";
import { findDatabaseUrl } from "./url.js";
import { WordIndex } from "./wordIndex.js";
import { splitWords } from "./words.js";

const FILES_DEFAULT = 800;
const HITS_SHOWN = 10;
/** Sent by a shell when Ctrl-C ends a program. */
const INTERRUPTED_STATUS = 130;

const USAGE = `npm run demo                        ingest the text files of this repository and its dependencies
npm run demo -- <folder>            ingest those of a folder
npm run demo -- search <word>...    the files that contain all the words
  --limit <n>        files at most (${FILES_DEFAULT})
  --flaky <percent>  let so many reads fail, to see them retried`;

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    limit: { type: "string", default: String(FILES_DEFAULT) },
    flaky: { type: "string", default: "0" },
    help: { type: "boolean", default: false },
  },
});

/** What the node says while it starts, and its warnings. Its other lines would tear the bar apart. */
let isStarting = true;
const log: NodeLog = {
  write(level, message) {
    if (isStarting || level === "warn" || level === "error") console.error(message);
  },
  record: () => undefined,
  flush: async () => undefined,
};

if (flags.help) console.log(USAGE);
else if (positionals[0] === "search") await search(positionals.slice(1));
else await run(resolve(positionals[0] ?? "."));

async function run(folder: string): Promise<void> {
  process.env.INGEST_FLAKY_PERCENT = flags.flaky;
  const files = findFiles(folder, Number(flags.limit));
  const node = await start();
  isStarting = false;
  const url = await findDatabaseUrl();
  const index = new WordIndex(url);
  const client = createClient({ url });
  const interrupt = new AbortController();
  process.once("SIGINT", () => interrupt.abort());
  try {
    await index.create();
    const inserted = await insertFiles(client, files);
    const fresh = inserted.filter((answer) => answer.ok).length;
    console.log(
      `${files.length} files in ${shownPath(folder) || "."}: ${fresh} new, ${files.length - fresh} known from an earlier run`,
    );
    const summary = await finish(
      client,
      inserted.map((answer) => answer.id),
      interrupt.signal,
    );
    if (interrupt.signal.aborted) {
      console.log("interrupted; run it again and it goes on");
      process.exitCode = INTERRUPTED_STATUS;
    } else await report(summary, index);
  } finally {
    await client.close();
    await index.close();
    await node.stop();
  }
}

interface Summary {
  instances: number;
  failed: number;
  steps: number;
  retries: number;
  /** Steps of instances that this run has seen end, and how long that took. */
  stepsNow: number;
  tookMs: number;
}

function insertFiles(client: Client, files: ReturnType<typeof findFiles>) {
  return client.insertMany(
    ingest,
    files.map((file) => ({
      state: { path: file.path, modifiedMs: file.modifiedMs },
      correlationKey: keyOf(file),
      // A finished file keeps its key; one that failed may be tried again by the next run.
      correlationScope: ["runnable", "executing", "awaiting_signal", "awaiting_children", "done"] as const,
    })),
  );
}

/** Waits for all instances, and shows how far they are. */
async function finish(client: Client, ids: readonly number[], signal: AbortSignal): Promise<Summary> {
  const startMs = performance.now();
  const summary = { instances: ids.length, failed: 0, steps: 0, retries: 0, stepsNow: 0, tookMs: 0 };
  const progress = new Progress(ids.length);
  let ended = 0;
  progress.update(ended, 0);
  const finishOne = async (id: number): Promise<void> => {
    const wasDone = await hasEnded(client, id);
    const outcome = await client.waitFor(ingest, id, { timeoutMs: Number.POSITIVE_INFINITY, signal });
    ended += 1;
    if (outcome.status === "done") {
      summary.steps += outcome.result.steps;
      summary.retries += outcome.result.retries;
      if (!wasDone) summary.stepsNow += outcome.result.steps;
    } else {
      summary.failed += 1;
      console.error(
        `instance ${id} failed: ${outcome.status === "failed" ? outcome.error : "it is not in the database any more"}`,
      );
    }
    progress.update(ended, summary.failed);
  };
  await Promise.all(ids.map(finishOne)).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return { ...summary, tookMs: performance.now() - startMs };
}

/** Whether an earlier run has finished the instance. A database that does not answer right now says no. */
function hasEnded(client: Client, id: number): Promise<boolean> {
  return client.waitFor(ingest, id, { timeoutMs: 0 }).then(
    ({ status }) => status === "done",
    () => false,
  );
}

async function report(summary: Summary, index: WordIndex): Promise<void> {
  const { instances, failed, steps, retries, stepsNow, tookMs } = summary;
  const rate = Math.round(stepsNow / (tookMs / 1_000));
  const size = await index.size();
  console.log(`instances ${instances} (${failed} failed), steps ${steps}, retries ${retries}`);
  console.log(`this run: ${stepsNow} steps in ${(tookMs / 1_000).toFixed(1)} s, ${rate} steps per second`);
  console.log(`index: ${size.files} files, ${size.words} words, ${size.rows} rows`);
  console.log("search it: npm run demo -- search durable state");
  if (failed > 0) process.exitCode = 1;
}

async function search(words: readonly string[]): Promise<void> {
  const wanted = [...new Set(splitWords(words.join(" ")))];
  if (wanted.length === 0) {
    console.error(USAGE);
    process.exitCode = 2;
    return;
  }
  // The node is what brings the embedded Postgres up, where nobody else has.
  isStarting = false;
  const node = await start();
  const index = new WordIndex(await findDatabaseUrl());
  try {
    await index.create();
    const hits = await index.search(wanted, HITS_SHOWN);
    for (const { path, count } of hits) console.log(`${String(count).padStart(6)}  ${shownPath(path)}`);
    if (hits.length === 0) console.log("no file contains all of these words");
  } finally {
    await index.close();
    await node.stop();
  }
}

/** The node of gen-durable.config.ts, in this process. Its paths are the file's own. */
function start() {
  const fsms = [fileURLToPath(new URL("./fsms/ingest.ts", import.meta.url))];
  return startNode({ ...config, fsms }, { log });
}
