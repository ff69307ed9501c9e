// Configurations, environments and flags of any shape: settings, or a refusal that names the path. And pokes: anybody may NOTIFY.

import { expect, test } from "@jest/globals";
import fc from "fast-check";
import { checkClientOptions } from "#core/client/options.js";
import type { GenDurableConfig } from "#core/config/config.js";
import { resolveSettings } from "#core/config/resolve.js";
import { UsageError } from "#core/errors.js";
import { decodePoke, encodePoke } from "#core/poke.js";
import type { Hostile } from "./hostile.js";
import { finite, runs } from "./values.js";

const KEYS = [
  "fsms",
  "instance",
  "database",
  "queues",
  "workers",
  "workerHeapMb",
  "flushers",
  "rateLimits",
  "concurrencyLimits",
  "leaseTtlMs",
  "heartbeatIntervalMs",
  "nodeTimeoutMs",
  "pollIntervalMs",
  "maxPollIntervalMs",
  "prefetch",
  "minDemand",
  "reaper",
  "gc",
  "poke",
  "drainTimeoutMs",
  "maxPayloadBytes",
  "crashLimit",
  "wait",
  "insertBatcher",
  "__proto__",
  "constructor",
  "nobody",
] as const;
const EXTREMES: readonly Hostile[] = [
  0,
  -1,
  1,
  0.5,
  1e308,
  -1e308,
  2 ** 31,
  2 ** 53,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  "1",
  "",
  "auto",
  "all",
  [],
  {},
  [[]],
  false,
  true,
].map((value) => ({ what: JSON.stringify(value) ?? String(value), make: () => value }));
const value = fc.oneof(fc.constantFrom(...EXTREMES), finite());
/** One level: what a key of the configuration may hold, an object of names among it. */
const setting: fc.Arbitrary<Hostile> = fc.oneof(
  value,
  fc
    .tuple(
      fc.constantFrom(
        "limit",
        "shards",
        "allowed",
        "period",
        "burst",
        "url",
        "schema",
        "intervalMs",
        "batch",
        "queues",
        "maxBatch",
        "default",
        "__proto__",
        "",
      ),
      value,
    )
    .map(([key, inner]) => ({
      what: `{ ${key}: ${inner.what} }`,
      make: () => own(key, inner.make()),
    })),
  fc
    .tuple(
      fc.constantFrom("stripe", "a:b", "default", "__proto__"),
      fc.constantFrom("limit", "allowed", "period"),
      value,
    )
    .map(([name, key, inner]) => ({
      what: `{ ${name}: { ${key}: ${inner.what} } }`,
      make: () => own(name, own(key, inner.make())),
    })),
);

function own(key: string, inner: unknown): Record<string, unknown> {
  return Object.defineProperty({}, key, {
    value: inner,
    enumerable: true,
    writable: true,
    configurable: true,
  });
}

/** Runs it; a refusal is fine, and nothing else is. */
function refusedOr<T>(attempt: () => T): T | undefined {
  try {
    return attempt();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    expect(error.code).toMatch(/^ERR_GEN_DURABLE_[A-Z_]+$/);
    expect(error.message).not.toBe("");
    return undefined;
  }
}

test("a configuration of any shape resolves, or is refused with what is wrong", () => {
  fc.assert(
    fc.property(fc.constantFrom(...KEYS), setting, (key, { make }) => {
      const resolved = refusedOr(() =>
        resolveSettings({ file: own(key, make()) as GenDurableConfig, env: {}, flags: {} }),
      );
      if (resolved === undefined) return;
      const { workers, leaseTtlMs, queues } = resolved.settings;
      // Who works no queue needs no threads for steps.
      const workersMin = Object.keys(queues).length === 0 ? 0 : 1;
      expect(Number.isInteger(workers) && workers >= workersMin && Number.isFinite(leaseTtlMs)).toBe(true);
      for (const slots of Object.values(queues)) expect(slots).toBeGreaterThan(0);
    }),
    runs("configuration", 200),
  );
});

test("a whole configuration that is none is refused", () => {
  fc.assert(
    fc.property(finite(), ({ make }) => {
      refusedOr(() => resolveSettings({ file: make() as GenDurableConfig, env: {}, flags: {} }));
    }),
    runs("whole configuration", 60),
  );
});

const VARIABLES = [
  "GEN_DURABLE_QUEUES",
  "GEN_DURABLE_WORKERS",
  "GEN_DURABLE_LEASE_TTL_MS",
  "GEN_DURABLE_DATABASE_URL",
  "GEN_DURABLE_SCHEMA",
  "GEN_DURABLE_PREPARE",
  "GEN_DURABLE_POKE",
  "GEN_DURABLE_REAPER",
  "GEN_DURABLE_GC",
  "GEN_DURABLE_PREFETCH",
  "GEN_DURABLE_INSTANCE",
  "DATABASE_URL",
  "PGHOST",
  "PGPORT",
  "PGDATABASE",
];
const words = fc.oneof(
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.constantFrom(
    "0",
    "-1",
    "1e3",
    "0x10",
    " 5 ",
    "true",
    "false",
    "default=5",
    "a=1,b=2",
    "=",
    ",",
    "a=b=c",
    "NaN",
    "postgres://",
    "postgres://u:p@h/d",
    "__proto__=1",
  ),
);

test("an environment of any kind resolves, or is refused", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...VARIABLES), words, { maxKeys: 4 }), (env) => {
      refusedOr(() => resolveSettings({ file: {}, env, flags: {} }));
    }),
    runs("environment", 200),
  );
});

test("a value that refuses to be looked at is refused where its error is worded, too", () => {
  const hostile = new Proxy(
    {},
    {
      getPrototypeOf: () => {
        throw new Error("looked at");
      },
    },
  );
  expect(() => checkClientOptions({ url: hostile as unknown as string }, {})).toThrow(UsageError);
});

test("client options of any kind are taken, or refused", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(
        "url",
        "pool",
        "schema",
        "prepare",
        "poke",
        "maxPayloadBytes",
        "insertBatcher",
        "wait",
        "ssl",
        "nobody",
        "__proto__",
      ),
      value,
      (key, { make }) => {
        refusedOr(() => checkClientOptions(own(key, make()), {}));
      },
    ),
    runs("client options", 150),
  );
});

test("pokes come out as they went in, and whatever else is notified is read as nothing or as a queue", () => {
  const queue = fc.string({ unit: "binary", minLength: 1 }).filter((name) => name !== "\tcancel");
  fc.assert(
    fc.property(
      queue,
      fc.integer({ min: 0, max: 2 ** 31 }),
      fc.integer({ min: 1, max: 2 ** 50 }),
      (name, dueInMs, instance) => {
        expect(decodePoke(encodePoke({ type: "due", queue: name, dueInMs }))).toEqual({
          type: "due",
          queue: name,
          dueInMs,
        });
        expect(decodePoke(encodePoke({ type: "cancel", id: instance }))).toEqual({
          type: "cancel",
          id: instance,
        });
      },
    ),
    runs("pokes", 1_000),
  );
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.stringMatching(/^[\tcancel0-9]*$/)), (payload) => {
      const poke = decodePoke(payload);
      if (poke?.type === "due")
        expect(poke.queue.length > 0 && poke.dueInMs >= 0 && Number.isFinite(poke.dueInMs)).toBe(true);
      if (poke?.type === "cancel") expect(poke.id).toBeGreaterThanOrEqual(0);
    }),
    runs("payloads", 1_000),
  );
});
