import { hostname } from "node:os";
import { expect, test } from "@jest/globals";
import type { UsageError } from "../errors.js";
import { defineConfig, type GenDurableConfig } from "./config.js";
import type { Environment } from "./environment.js";
import type { SettingFlags } from "./flags.js";
import { resolveSettings } from "./resolve.js";

function resolve(file: unknown = {}, env: Environment = {}, flags: SettingFlags = {}) {
  return resolveSettings({ file: file as GenDurableConfig, env, flags });
}

function refusal(file: unknown, env: Environment = {}, flags: SettingFlags = {}): UsageError {
  try {
    resolve(file, env, flags);
  } catch (error) {
    return error as UsageError;
  }
  throw new Error("it was accepted");
}

test("CFG-07: an empty configuration has the documented defaults", () => {
  const { settings, fsms, insertBatcher, warnings, databaseSource } = resolve(undefined);
  expect(settings).toMatchObject({
    instance: hostname(),
    database: { url: undefined, listenUrl: undefined, schema: "gen_durable", prepare: true },
    queues: { default: 10 },
    workerHeapMb: 512,
    flushers: [{ queues: ["default"], maxBatch: 100, maxDelayMs: 100 }],
    rateLimits: {},
    concurrencyLimits: {},
    leaseTtlMs: 60_000,
    heartbeatIntervalMs: 20_000,
    nodeTimeoutMs: 10_000,
    pollIntervalMs: 1_000,
    maxPollIntervalMs: 5_000,
    prefetch: "auto",
    minDemand: 1,
    reaper: { intervalMs: 30_000 },
    gc: { intervalMs: 60_000, retentionMs: 86_400_000, batch: 10_000 },
    poke: "postgres",
    drainTimeoutMs: 5_000,
    maxPayloadBytes: 4_194_304,
    crashLimit: 10,
    inlineMaxMs: 5_000,
    wait: { tickMs: 25 },
  });
  expect(settings.workers).toBeGreaterThanOrEqual(1);
  expect(settings.workers).toBeLessThanOrEqual(4);
  expect({ fsms, insertBatcher, warnings, databaseSource }).toEqual({
    fsms: [],
    insertBatcher: false,
    warnings: [],
    databaseSource: "embedded",
  });
});

test("the example of the guide resolves", () => {
  const { settings, fsms } = resolve(
    defineConfig({
      fsms: ["./fsms/*.ts"],
      database: { url: undefined },
      queues: { default: 10, checkout: 50 },
      rateLimits: { stripe: { allowed: 100, period: "1 minute" } },
      concurrencyLimits: { stripe: { limit: 100, shards: 10 } },
    }),
  );
  expect(fsms).toEqual(["./fsms/*.ts"]);
  expect(settings.rateLimits).toEqual({ stripe: { rate: 100 / 60, burst: 100, shards: 1 } });
  expect(settings.concurrencyLimits).toEqual({ stripe: { limit: 100, shards: 10 } });
  expect(settings.flushers.map((flusher) => flusher.queues)).toEqual([["default"], ["checkout"]]);
});

test("CFG-04: a partial object merges over the defaults", () => {
  expect(resolve({ gc: { retentionMs: 1 } }).settings.gc).toEqual({
    intervalMs: 60_000,
    retentionMs: 1,
    batch: 10_000,
  });
  expect(resolve({ database: { schema: 'My-"Schema' } }).settings.database).toEqual({
    url: undefined,
    listenUrl: undefined,
    schema: 'My-"Schema',
    prepare: true,
  });
});

test("reaper and gc may be switched off", () => {
  expect(resolve({ reaper: false, gc: false }).settings).toMatchObject({ reaper: false, gc: false });
  expect(resolve({}, {}, { reaper: false, gc: false }).settings).toMatchObject({ reaper: false, gc: false });
  expect(resolve({ gc: false }, { GEN_DURABLE_GC: "true" }).settings.gc).toMatchObject({ batch: 10_000 });
  expect(resolve({ gc: { batch: 7 } }, { GEN_DURABLE_GC: "true" }).settings.gc).toMatchObject({ batch: 7 });
  expect(resolve({ gc: false }, {}, { gc: true }).settings.gc).toBe(false);
});

test("CFG-01: a wait tick of 0, or the waiter switched off, is refused by name", () => {
  expect(refusal({ wait: { tickMs: 0 } })).toMatchObject({
    code: "ERR_GEN_DURABLE_INVALID_CONFIG",
    path: "wait.tickMs",
    message: "wait.tickMs: expected an integer from 1 to 60000, found 0",
  });
  expect(refusal({ wait: false }).message).toBe("wait: expected an object { tickMs }, found false");
});

test("CFG-02: an unknown poke transport is refused with the allowed ones", () => {
  expect(refusal({ poke: "redis" }).message).toBe(
    'poke: expected one of "postgres", "local", "none", found "redis"',
  );
});

test("CFG-05: flushers that are empty, no list, or leave a queue uncovered are refused", () => {
  expect(refusal({ flushers: [] }).message).toContain("flushers: expected at least one flusher");
  expect(refusal({ flushers: { queues: "all" } }).message).toContain("flushers: expected a list");
  const queues = { a: 1, email: 2 };
  expect(refusal({ queues, flushers: [{ queues: ["a"] }] }).message).toBe(
    'flushers: no flusher covers the queue "email"; name it in one, or use queues: "all"',
  );
  expect(refusal({ queues, flushers: [{ queues: ["a", "emial"] }, { queues: "all" }] }).message).toContain(
    '"emial" is no configured queue',
  );
  expect(refusal({ flushers: [{ queues: "some" }] }).path).toBe("flushers[0].queues");
  expect(refusal({ flushers: [{ queues: "all", maxDelay: 1 }] }).message).toBe(
    'flushers[0].maxDelay: unknown key; did you mean "maxDelayMs"? (allowed: queues, maxBatch, maxDelayMs)',
  );
});

test("a queue goes to the first flusher that names it, and flushers without a queue are left out", () => {
  const flushers = [{ queues: ["b"], maxBatch: 5 }, { queues: "all" }, { queues: ["a"] }];
  expect(resolve({ queues: { a: 1, b: 1, c: 1 }, flushers }).settings.flushers).toEqual([
    { queues: ["b"], maxBatch: 5, maxDelayMs: 100 },
    { queues: ["a", "c"], maxBatch: 100, maxDelayMs: 100 },
  ]);
  // A node that serves some queues only shares the file with others.
  const some = resolve(
    { queues: { a: 1, b: 1 }, flushers: [{ queues: ["a"] }, { queues: ["b"] }] },
    {},
    { queues: "b" },
  );
  expect(some.settings.flushers.map((flusher) => flusher.queues)).toEqual([["b"]]);
});

test("without flushers there is one a queue, at most four, and further queues share", () => {
  const queues = Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((queue) => [queue, 1]));
  expect(resolve({ queues }).settings.flushers.map((flusher) => flusher.queues)).toEqual([
    ["a", "e"],
    ["b", "f"],
    ["c"],
    ["d"],
  ]);
});

test("what stands where TLS keys belong is not shown", () => {
  const ssl = { key: 12345, passphrase: 67890, rejectUnauthorized: "s3cret" } as never;
  expect(refusal({ database: { ssl } }).message).not.toMatch(/12345|67890|s3cret/);
  expect(refusal({ database: { ssl: "s3cret" as never } }).message).toBe(
    "database.ssl: expected true, false or an object of TLS options, found a string, which is not shown",
  );
});

test("an unknown key is refused with its path and the nearest one", () => {
  expect(refusal({ queus: { default: 1 } }).message).toMatch(
    /^queus: unknown key; did you mean "queues"\? \(allowed: fsms, instance, /,
  );
  expect(refusal({ gc: { retention: 1 } }).message).toBe(
    'gc.retention: unknown key; did you mean "retentionMs"? (allowed: intervalMs, retentionMs, batch)',
  );
  expect(refusal({ rateLimits: { stripe: { allowed: 1, period: 1, per: 2 } } }).path).toBe(
    "rateLimits.stripe.per",
  );
  expect(refusal({ database: { ulr: "x" } }).message).toContain('did you mean "url"');
});

test.each([
  [{ queues: { default: 0 } }, "queues.default"],
  [{ queues: { default: 1.5 } }, "queues.default"],
  [{ queues: { default: "10" } }, "queues.default"],
  [{ queues: { "": 1 } }, 'queues[""]'],
  [{ queues: { ["x".repeat(513)]: 1 } }, `queues.${"x".repeat(513)}`],
  [{ queues: [] }, "queues"],
  [{ workers: 0 }, "workers"],
  [{ workers: Number.NaN }, "workers"],
  [{ leaseTtlMs: -1 }, "leaseTtlMs"],
  [{ leaseTtlMs: 2 ** 31 }, "leaseTtlMs"],
  [{ reaper: true }, "reaper"],
  [{ reaper: { intervalMs: 0 } }, "reaper.intervalMs"],
  [{ prefetch: "many" }, "prefetch"],
  [{ prefetch: -1 }, "prefetch"],
  [{ minDemand: 0 }, "minDemand"],
  [{ maxPayloadBytes: 0 }, "maxPayloadBytes"],
  [{ crashLimit: 0 }, "crashLimit"],
  [{ inlineMaxMs: -1 }, "inlineMaxMs"],
  [{ rateLimits: { "a:b": { allowed: 1, period: 1 } } }, 'rateLimits["a:b"]'],
  [{ rateLimits: { a: { allowed: 0, period: 1 } } }, "rateLimits.a.allowed"],
  [{ rateLimits: { a: { allowed: 1 } } }, "rateLimits.a.period"],
  [{ rateLimits: { a: { allowed: 1, period: "1 fortnight" } } }, "rateLimits.a.period"],
  [{ rateLimits: { a: { allowed: 1, period: 0 } } }, "rateLimits.a.period"],
  [{ concurrencyLimits: { a: { limit: 0 } } }, "concurrencyLimits.a.limit"],
  [{ concurrencyLimits: { a: 5 } }, "concurrencyLimits.a"],
  [{ database: { url: "mysql://x" } }, "database.url"],
  [{ database: "postgres://x" }, "database"],
  [{ fsms: 5 }, "fsms"],
  [{ insertBatcher: true }, "insertBatcher"],
  [{ heartbeatIntervalMs: 60_000 }, "heartbeatIntervalMs"],
  [{ pollIntervalMs: 10, maxPollIntervalMs: 5 }, "maxPollIntervalMs"],
  [[], ""],
  ["x", ""],
])("%j is refused at its path", (file, path) => {
  const error = refusal(file);
  expect(error).toMatchObject({ code: "ERR_GEN_DURABLE_INVALID_CONFIG", path });
  expect(error.message).not.toContain("Invalid input");
});

test("a node may serve no queue, by file, variable and flag; then nothing runs and nothing commits", () => {
  const file = { queues: { mail: 5 }, flushers: [{ queues: ["mail"] }], workers: 3 };
  const none = { queues: {}, flushers: [], workers: 0 };
  expect(resolveSettings({ env: {}, file: { queues: {} } }).settings).toMatchObject(none);
  expect(resolveSettings({ env: { GEN_DURABLE_QUEUES: "false" }, file }).settings).toMatchObject(none);
  expect(resolveSettings({ env: {}, file, flags: { queues: false } }).settings).toMatchObject(none);
  expect(
    resolveSettings({ env: {}, file: { queues: {} }, flags: { queues: "mail=2" } }).settings.queues,
  ).toEqual({ mail: 2 });
});

test("everything that is wrong is named at once", () => {
  expect(refusal({ workers: 0, poke: 1, x: 1 }).message.split("\n")).toHaveLength(3);
});

test("CFG-08: a warning says when three heartbeats do not fit into a lease", () => {
  expect(resolve({ leaseTtlMs: 1_000, heartbeatIntervalMs: 300 }).warnings).toEqual([]);
  expect(resolve({ leaseTtlMs: 1_000, heartbeatIntervalMs: 400 }).warnings[0]).toContain(
    "heartbeatIntervalMs (400)",
  );
});

test("a long poll interval raises the longest one with it", () => {
  expect(resolve({ pollIntervalMs: 60_000 }).settings.maxPollIntervalMs).toBe(60_000);
});

test("C1: a flag beats a variable, a variable beats the file, the file beats DATABASE_URL, that beats PG*", () => {
  const file = { workers: 1, database: { url: "postgres://file" } };
  const env = {
    GEN_DURABLE_WORKERS: "2",
    GEN_DURABLE_DATABASE_URL: "postgres://variable",
    DATABASE_URL: "postgres://common",
    PGHOST: "pg",
  };
  const flags = { workers: "3", databaseUrl: "postgres://flag" };
  const seen = (resolved: ReturnType<typeof resolve>) => [
    resolved.settings.workers,
    resolved.settings.database.url,
    resolved.databaseSource,
  ];
  expect(seen(resolve(file, env, flags))).toEqual([3, "postgres://flag", "--database-url"]);
  expect(seen(resolve(file, env))).toEqual([2, "postgres://variable", "GEN_DURABLE_DATABASE_URL"]);
  const { GEN_DURABLE_DATABASE_URL: _, ...common } = env;
  expect(seen(resolve(file, common))).toEqual([2, "postgres://file", "config file"]);
  expect(seen(resolve({}, common))).toEqual([2, "postgres://common", "DATABASE_URL"]);
  expect(resolve({}, { PGHOST: "pg" })).toMatchObject({ databaseSource: "PG* variables" });
  expect(resolve({}, { PGPASSWORD: "x", DATABASE_URL: "" })).toMatchObject({ databaseSource: "embedded" });
});

test("the embedded server can be asked for over everything else", () => {
  const env = { DATABASE_URL: "mysql://other-program", PGHOST: "pg" };
  expect(resolve({}, env, { embedded: true })).toMatchObject({
    databaseSource: "embedded",
    settings: { database: { url: undefined } },
  });
  expect(resolve({}, { ...env, GEN_DURABLE_EMBEDDED: "1" }).databaseSource).toBe("embedded");
});

test("a refusal says who stated the value, and shows no password", () => {
  expect(refusal({}, { GEN_DURABLE_WORKERS: "many" }).message).toBe(
    'workers: expected an integer from 1 to 256, found "many" (from GEN_DURABLE_WORKERS)',
  );
  const { message } = refusal({}, { DATABASE_URL: "mysql://me:secret@host/db" });
  expect(message).toContain("(from DATABASE_URL)");
  expect(message).not.toContain("secret");
});

test("--queues takes some queues, with their configured number or one of their own", () => {
  const file = { queues: { default: 4, email: 7 } };
  expect(resolve(file, {}, { queues: "email" }).settings.queues).toEqual({ email: 7 });
  expect(resolve(file, {}, { queues: "email=2, new" }).settings.queues).toEqual({ email: 2, new: 10 });
  expect(resolve(file, { GEN_DURABLE_QUEUES: "default=1" }).settings.queues).toEqual({ default: 1 });
  expect(refusal(file, {}, { queues: "email=x" }).message).toContain('found "x" (from --queues)');
});

test("a misspelt variable of ours is a warning", () => {
  const { warnings } = resolve({}, { GEN_DURABLE_WORKER: "2", GEN_DURABLE_TEST_DATABASE_URL: "x" });
  expect(warnings).toEqual(['GEN_DURABLE_WORKER is no variable of gen-durable; did you mean "WORKERS"?']);
});
