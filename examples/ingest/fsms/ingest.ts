// The machine: one instance a file. Each step's state is committed before the next one runs, so a node that is killed
// between two steps goes on at the second, not at the file's beginning.

import { readFile } from "node:fs/promises";
import { defineFsm } from "gen-durable";
import { z } from "zod";
import { WordIndex } from "../wordIndex.js";
import { countWords, splitWords } from "../words.js";

/** Failures before the file is given up. A kill is none, so they are counted in the state: `ctx.attempt` counts both. */
const FAILURES_MAX = 8;

const state = z.object({
  path: z.string(),
  modifiedMs: z.number().int(),
  text: z.string().default(""),
  words: z.array(z.string()).default([]),
  counts: z.array(z.tuple([z.string(), z.number().int()])).default([]),
  wordCount: z.number().int().default(0),
  retries: z.number().int().default(0),
});

/** What an instance ends with. */
const result = z.object({
  path: z.string(),
  words: z.number().int(),
  distinctWords: z.number().int(),
  steps: z.number().int(),
  retries: z.number().int(),
});

let index: WordIndex | undefined;

/** One pool an executor thread. The node tells its threads which database it took. */
function openIndex(): WordIndex {
  const url = process.env.GEN_DURABLE_DATABASE_URL ?? process.env.DATABASE_URL;
  if (url === undefined) throw new Error("no database: GEN_DURABLE_DATABASE_URL is not set");
  index ??= new WordIndex(url);
  return index;
}

/** `npm run demo -- --flaky 5` makes five reads of a hundred fail, to show what `handle` is for. */
function failNowAndThen(): void {
  if (Math.random() * 100 < Number(process.env.INGEST_FLAKY_PERCENT ?? 0)) throw new Error("a flaky disk");
}

export const ingest = defineFsm({
  name: "ingest",
  version: 1,
  queue: "ingest",
  state,
  result,
  steps: {
    read: async (ctx) => {
      failNowAndThen();
      const text = await readFile(ctx.state.path, { encoding: "utf8", signal: ctx.signal });
      // Postgres cannot store a NUL, and a file that has one is not a text.
      if (text.includes("\0")) return ctx.stop("not a text file");
      return ctx.next("split", { ...ctx.state, text });
    },
    split: (ctx) => ctx.next("count", { ...ctx.state, text: "", words: splitWords(ctx.state.text) }),
    count: (ctx) => {
      const { words } = ctx.state;
      return ctx.next("index", {
        ...ctx.state,
        words: [],
        counts: countWords(words),
        wordCount: words.length,
      });
    },
    index: async (ctx) => {
      const { path, modifiedMs, counts, wordCount, retries } = ctx.state;
      await openIndex().write({ path, modifiedMs, words: wordCount, counts });
      return ctx.done({ path, words: wordCount, distinctWords: counts.length, steps: 4 + retries, retries });
    },
  },
  handle: (error, ctx) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return ctx.stop("the file is gone");
    const { retries } = ctx.state;
    if (retries + 1 >= FAILURES_MAX) return ctx.stop(error.message);
    return ctx.retry({ ...ctx.state, retries: retries + 1 }, { delayMs: 100 * 2 ** retries });
  },
});
