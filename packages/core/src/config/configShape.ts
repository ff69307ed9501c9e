// ConfigShape: the zod schema of GenDurableConfig: what is allowed, and every default.

import { availableParallelism, hostname } from "node:os";
import { z } from "zod";
import { TIMER_MS_MAX } from "../clock.js";
import { DURATION_MS_MAX, NAME_BYTES_MAX } from "../name.js";
import { PERIOD_FORMS, parsePeriod } from "./period.js";

/** Executor threads unless stated: beyond four, Postgres is the limit before the cores are. */
const WORKERS_DEFAULT_MAX = 4;
/** Executor threads at most: each is a heap and an event loop of its own. */
const WORKERS_MAX = 256;
/** Steps at once of one queue on one node: what its ledger can seat, with room for others. */
const CONCURRENCY_MAX = 10_000;
/** Rows of one claim or commit: larger ones hold their locks longer than they save round trips. */
const BATCH_MAX = 10_000;
/** Rows of one insert statement. */
const INSERT_ROWS_MAX = 2_000;
/** Counter rows of one limit: each is a lock and a row version. */
const SHARDS_MAX = 1_024;
/** Bytes of one JSON value: Postgres takes 255 MiB for one text, and a batch must fit into memory. */
const PAYLOAD_BYTES_MAX = 64 * 1024 * 1024;

export const CONCURRENCY_DEFAULT = 10;
/** Bytes of one JSON value, and crashes of one visit, unless stated. */
export const MAX_PAYLOAD_BYTES_DEFAULT = 4_194_304;
export const CRASH_LIMIT_DEFAULT = 10;
/** When a flusher commits, unless stated. */
export const FLUSHER_DEFAULTS = { maxBatch: 100, maxDelayMs: 100 } as const;

const name = text("a text of 1 to 512 bytes").refine(isName, {
  error: "expected 1 to 512 bytes without NUL",
});
const limitName = name.refine((value) => !value.includes(":"), {
  error: "a limit's name has no colon: it separates the name from the partition",
});
const databaseUrl = z.string({ error: "expected a postgres:// URL" }).regex(/^postgres(ql)?:\/\//, {
  error: "expected a URL that begins with postgres:// or postgresql://",
});

const pem = text("a text in PEM form");
const ssl = z.strictObject(
  {
    ca: z.union([pem, z.array(pem)], { error: "expected a text in PEM form, or a list of them" }).optional(),
    cert: pem.optional(),
    key: pem.optional(),
    passphrase: text("a passphrase").optional(),
    servername: text("a host's name").optional(),
    rejectUnauthorized: flag().optional(),
  },
  { error: "expected an object { ca, cert, key, passphrase, servername, rejectUnauthorized }" },
);

/** TLS as a configuration or a client may state it. */
export const sslShape = z.union([z.boolean(), ssl], {
  error: "expected true, false or an object of TLS options",
});

const database = z.strictObject(
  {
    url: databaseUrl.optional(),
    listenUrl: databaseUrl.optional(),
    schema: text("a schema's name").min(1, "expected a schema's name").default("gen_durable"),
    prepare: flag().default(true),
    ssl: sslShape.optional(),
  },
  { error: "expected an object { url, listenUrl, schema, prepare, ssl }" },
);

const flusher = z.strictObject(
  {
    queues: z.union([z.literal("all"), z.array(name).min(1)], {
      error: 'expected a list of queues that is not empty, or "all"',
    }),
    maxBatch: integer(1, BATCH_MAX).default(FLUSHER_DEFAULTS.maxBatch),
    maxDelayMs: integer(0, 60_000).default(FLUSHER_DEFAULTS.maxDelayMs),
  },
  { error: "expected an object { queues, maxBatch, maxDelayMs }" },
);

const rateLimit = z.strictObject(
  {
    allowed: positive(),
    period: z.unknown().transform((value, context) => {
      const ms = parsePeriod(value);
      if (ms !== undefined) return ms;
      context.addIssue({ code: "custom", message: `expected ${PERIOD_FORMS}` });
      return z.NEVER;
    }),
    burst: positive().optional(),
    shards: integer(1, SHARDS_MAX).default(1),
  },
  { error: "expected an object { allowed, period, burst, shards }" },
);

const concurrencyLimit = z.strictObject(
  { limit: integer(1), shards: integer(1, SHARDS_MAX).default(1) },
  { error: "expected an object { limit, shards }" },
);

const reaper = z.strictObject(
  { intervalMs: intervalMs().default(30_000) },
  { error: "expected false or { intervalMs }" },
);
const gc = z.strictObject(
  {
    intervalMs: intervalMs().default(60_000),
    retentionMs: integer(0, DURATION_MS_MAX).default(86_400_000),
    batch: integer(1, 100_000).default(10_000),
  },
  { error: "expected false or { intervalMs, retentionMs, batch }" },
);
const insertBatcher = z.strictObject(
  {
    maxRows: integer(1, INSERT_ROWS_MAX).default(100),
    maxDelayMs: integer(0, 60_000).default(15),
    maxBuffered: integer(0, 1_000_000).default(10_000),
  },
  { error: "expected false or { maxRows, maxDelayMs, maxBuffered }" },
);

export const configShape = z.strictObject(
  {
    fsms: z
      .union([text("a path or a glob"), z.array(text("a path or a glob"))], {
        error: "expected a path or glob, or a list of them",
      })
      .default([])
      .transform((fsms) => (typeof fsms === "string" ? [fsms] : fsms)),
    instance: name.default(() => hostname()),
    database: database.prefault({}),
    queues: z
      .record(name, integer(1, CONCURRENCY_MAX), { error: "expected an object { <queue>: <steps at once> }" })
      .default({ default: CONCURRENCY_DEFAULT }),
    workers: integer(1, WORKERS_MAX).default(() => Math.min(availableParallelism(), WORKERS_DEFAULT_MAX)),
    workerHeapMb: integer(64, 65_536).default(512),
    flushers: z
      .array(flusher, { error: "expected a list of { queues, maxBatch, maxDelayMs }" })
      .min(1, { error: "expected at least one flusher; leave it out for the default" })
      .optional(),
    rateLimits: z.record(limitName, rateLimit, { error: "expected an object of rate limits" }).default({}),
    concurrencyLimits: z
      .record(limitName, concurrencyLimit, { error: "expected an object of concurrency limits" })
      .default({}),
    leaseTtlMs: intervalMs().default(60_000),
    heartbeatIntervalMs: intervalMs().default(20_000),
    nodeTimeoutMs: intervalMs().default(10_000),
    pollIntervalMs: intervalMs().default(1_000),
    maxPollIntervalMs: intervalMs().optional(),
    prefetch: z
      .union([z.literal("auto"), integer(0, BATCH_MAX)], {
        error: `expected "auto" or an integer from 0 to ${BATCH_MAX}`,
      })
      .default("auto"),
    minDemand: integer(1, CONCURRENCY_MAX).default(1),
    reaper: z.union([z.literal(false), reaper]).prefault({}),
    gc: z.union([z.literal(false), gc]).prefault({}),
    poke: z
      .enum(["postgres", "local", "none"], { error: 'expected one of "postgres", "local", "none"' })
      .default("postgres"),
    drainTimeoutMs: integer(0, TIMER_MS_MAX).default(5_000),
    maxPayloadBytes: integer(1_024, PAYLOAD_BYTES_MAX).default(MAX_PAYLOAD_BYTES_DEFAULT),
    crashLimit: integer(1, 1_000_000).default(CRASH_LIMIT_DEFAULT),
    inlineMaxMs: integer(0, DURATION_MS_MAX).default(5_000),
    wait: z
      .strictObject({ tickMs: integer(1, 60_000).default(25) }, { error: "expected an object { tickMs }" })
      .prefault({}),
    insertBatcher: z.union([z.literal(false), insertBatcher]).default(false),
  },
  { error: "expected a configuration object" },
);

/** The configuration with its defaults; what depends on several keys is settled by resolve.ts. */
export type CompleteConfig = z.output<typeof configShape>;

function integer(min: number, max: number = Number.MAX_SAFE_INTEGER) {
  const error = `expected an integer from ${min}${max === Number.MAX_SAFE_INTEGER ? " up" : ` to ${max}`}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

// A longer wait overflows setTimeout.
function intervalMs() {
  return integer(1, TIMER_MS_MAX);
}

function positive() {
  const error = "expected a finite number above 0";
  return z.number({ error }).gt(0, { error });
}

function text(what: string) {
  return z.string({ error: `expected ${what}` });
}

function flag() {
  return z.boolean({ error: "expected true or false" });
}

function isName(value: string): boolean {
  const bytes = Buffer.byteLength(value);
  return bytes >= 1 && bytes <= NAME_BYTES_MAX && !value.includes("\0");
}
