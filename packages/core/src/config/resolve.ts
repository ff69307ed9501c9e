// Resolve: flags, environment and file become the settings of a node.
//
// C1  Precedence: flag, GEN_DURABLE_* variable, file, DATABASE_URL, PG* variables, default. Of an object (`gc`) each key
//     is taken by itself.
// C2  Nothing is guessed: an unknown key, a value of the wrong kind or two settings that contradict each other are
//     refused, with the path, what was found, what is allowed, and who stated it.

import { UsageError } from "../errors.js";
import { describe } from "../name.js";
import { isPlainObject } from "../plain.js";
import { reading } from "../readable.js";
import type { ConcurrencyLimitSettings, NodeSettings, RateLimitSettings } from "../settings.js";
import type { GenDurableConfig } from "./config.js";
import { type CompleteConfig, configShape, FLUSHER_DEFAULTS } from "./configShape.js";
import {
  asksForEmbedded,
  type Environment,
  hasPgVariables,
  type Statement,
  statementsOfEnvironment,
} from "./environment.js";
import { type SettingFlags, statementsOfFlags } from "./flags.js";
import { defaultFlushers, findFlusherProblem, routeFlushers } from "./flushers.js";
import { configError, type OriginOf, refuseConfig } from "./problems.js";
import { parseQueues } from "./queuesText.js";

/** Who said where the database is. "embedded": nobody, or it was asked for. */
export type DatabaseSource =
  | "--database-url"
  | "GEN_DURABLE_DATABASE_URL"
  | "config file"
  | "DATABASE_URL"
  | "PG* variables"
  | "embedded";

export interface ConfigInputs {
  flags?: SettingFlags;
  /** Default: process.env. */
  env?: Environment;
  /** What the file's default export is, or what startNode was given. */
  file?: GenDurableConfig | undefined;
}

export interface ResolvedConfig {
  settings: Omit<NodeSettings, "modules">;
  /** Paths or globs of the modules with definitions, as they were written. */
  fsms: string[];
  databaseSource: DatabaseSource;
  insertBatcher: CompleteConfig["insertBatcher"];
  /** Who stated what, by path; a path that is not here has its default. */
  origins: ReadonlyMap<string, string>;
  /** What is allowed and probably not meant; to be logged. */
  warnings: string[];
}

const FILE_ORIGIN = "config file";

/** @throws UsageError INVALID_CONFIG, whose message lists everything that is wrong */
export function resolveSettings(inputs: ConfigInputs): ResolvedConfig {
  return reading("config", () => resolveReadable(inputs));
}

function resolveReadable({ flags = {}, env = process.env, file }: ConfigInputs): ResolvedConfig {
  const environment = statementsOfEnvironment(env);
  const stated = [...statementsOfFile(file), ...environment.stated, ...statementsOfFlags(flags)];
  const embedded = flags.embedded === true || asksForEmbedded(env);
  if (!embedded && isSet(env.DATABASE_URL) && !stated.some(({ keys }) => keys.join(".") === "database.url"))
    stated.push({ keys: ["database", "url"], value: env.DATABASE_URL, origin: "DATABASE_URL" });
  const { config, origins } = layered(stated);
  const originOf: OriginOf = (keys) => originIn(origins, keys);

  const unusable = Object.keys(config).filter((key) => hasProto(config[key]));
  if (unusable.length > 0)
    throw refuseConfig(
      unusable.map((key) => ({ keys: [key, "__proto__"], message: "not a usable name" })),
      originOf,
    );
  const parsed = configShape.safeParse(config);
  if (!parsed.success) throw configError(parsed.error.issues, config, originOf);
  const complete = parsed.data;
  const databaseSource = sourceOf(flags, env, origins.get("database.url"));
  const problems = contradictions(complete, queuesOfFile(file));
  if (problems.length > 0) throw refuseConfig(problems, originOf);
  return {
    settings: settingsOf(complete, databaseSource),
    fsms: complete.fsms,
    databaseSource,
    insertBatcher: complete.insertBatcher,
    origins,
    warnings: [...environment.warnings, ...warningsOf(complete)],
  };
}

function statementsOfFile(file: unknown): Statement[] {
  if (file === undefined) return [];
  if (!isPlainObject(file))
    throw new UsageError(
      "INVALID_CONFIG",
      `config: expected a configuration object, found ${describe(file)}`,
      {
        path: "",
      },
    );
  const parts = ["database", "reaper", "gc", "wait", "insertBatcher"];
  return Object.entries(file).flatMap(([key, value]): Statement[] => {
    if (value === undefined) return [];
    if (!parts.includes(key) || !isPlainObject(value) || Object.keys(value).length === 0)
      return [{ keys: [key], value, origin: FILE_ORIGIN }];
    return Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([inner, innerValue]) => ({ keys: [key, inner], value: innerValue, origin: FILE_ORIGIN }));
  });
}

/** zod leaves this key out without a word. */
function hasProto(part: unknown): boolean {
  return isPlainObject(part) && Object.hasOwn(part, "__proto__");
}

/** Later statements override earlier ones. A part that was switched off and is stated in detail later is on again. */
function layered(stated: readonly Statement[]): {
  config: Record<string, unknown>;
  origins: Map<string, string>;
} {
  // Without a prototype: a key named __proto__ is a key like any other, and unknown.
  const config: Record<string, unknown> = Object.create(null);
  const origins = new Map<string, string>();
  for (const { keys, value, origin } of stated) {
    const [key = "", inner] = keys;
    if (inner !== undefined) {
      const outer = config[key];
      config[key] = { ...(isPlainObject(outer) ? outer : {}), [inner]: value };
    } else if (key === "queues" && typeof value === "string") {
      config[key] = parseQueues(value, config[key]);
    } else if (key !== "queues" && isEmptyObject(value) && isPlainObject(config[key])) {
      continue; // `GEN_DURABLE_GC=true` over a file's `gc: { ... }`: it is on already
    } else {
      config[key] = value;
    }
    origins.set(keys.join("."), origin);
  }
  return { config, origins };
}

function originIn(origins: ReadonlyMap<string, string>, keys: readonly PropertyKey[]): string | undefined {
  for (let length = keys.length; length > 0; length--) {
    const origin = origins.get(keys.slice(0, length).map(String).join("."));
    if (origin !== undefined) return origin === FILE_ORIGIN ? undefined : origin;
  }
  return undefined;
}

function sourceOf(flags: SettingFlags, env: Environment, urlOrigin: string | undefined): DatabaseSource {
  if (flags.embedded === true) return "embedded";
  if (urlOrigin === "--database-url") return urlOrigin;
  if (asksForEmbedded(env)) return "embedded";
  if (urlOrigin === "GEN_DURABLE_DATABASE_URL" || urlOrigin === "DATABASE_URL" || urlOrigin === FILE_ORIGIN)
    return urlOrigin;
  return hasPgVariables(env) ? "PG* variables" : "embedded";
}

interface Contradiction {
  keys: string[];
  message: string;
}

function contradictions(config: CompleteConfig, knownQueues: readonly string[]): Contradiction[] {
  const { leaseTtlMs, heartbeatIntervalMs, pollIntervalMs, maxPollIntervalMs, flushers } = config;
  const found: Contradiction[] = [];
  if (heartbeatIntervalMs >= leaseTtlMs)
    found.push({
      keys: ["heartbeatIntervalMs"],
      message: `expected less than leaseTtlMs (${leaseTtlMs}), found ${heartbeatIntervalMs}: claims would expire between heartbeats`,
    });
  if (maxPollIntervalMs !== undefined && maxPollIntervalMs < pollIntervalMs)
    found.push({
      keys: ["maxPollIntervalMs"],
      message: `expected at least pollIntervalMs (${pollIntervalMs}), found ${maxPollIntervalMs}`,
    });
  const queues = Object.keys(config.queues);
  const problem =
    flushers === undefined
      ? undefined
      : findFlusherProblem(flushers, queues, new Set([...queues, ...knownQueues]));
  if (problem !== undefined) found.push({ keys: ["flushers"], message: problem });
  return found;
}

function warningsOf({ heartbeatIntervalMs, leaseTtlMs }: CompleteConfig): string[] {
  if (heartbeatIntervalMs * 3 <= leaseTtlMs) return [];
  return [
    `heartbeatIntervalMs (${heartbeatIntervalMs}) fits fewer than three times into leaseTtlMs (${leaseTtlMs}): one or two lost heartbeats cost a claim`,
  ];
}

function settingsOf(config: CompleteConfig, databaseSource: DatabaseSource): ResolvedConfig["settings"] {
  const { fsms: _fsms, insertBatcher: _batcher, ...rest } = config;
  const queues = Object.keys(config.queues);
  const usesUrl = databaseSource !== "embedded" && databaseSource !== "PG* variables";
  return {
    ...rest,
    // Without queues there is nothing to run.
    workers: queues.length === 0 ? 0 : config.workers,
    database: {
      ...config.database,
      url: usesUrl ? config.database.url : undefined,
      listenUrl: databaseSource === "embedded" ? undefined : config.database.listenUrl,
    },
    flushers:
      config.flushers === undefined
        ? defaultFlushers(queues, FLUSHER_DEFAULTS)
        : routeFlushers(config.flushers, queues),
    rateLimits: mapValues(config.rateLimits, rateOf),
    concurrencyLimits: mapValues(config.concurrencyLimits, gateOf),
    maxPollIntervalMs: config.maxPollIntervalMs ?? Math.max(5_000, config.pollIntervalMs),
  };
}

function rateOf(limit: CompleteConfig["rateLimits"][string]): RateLimitSettings {
  const { allowed, period, burst = allowed, shards } = limit;
  return { rate: (allowed / period) * 1_000, burst, shards };
}

// More shards than slots is nonsense: some would hold none.
function gateOf({ limit, shards }: CompleteConfig["concurrencyLimits"][string]): ConcurrencyLimitSettings {
  return { limit, shards: Math.min(shards, limit) };
}

function mapValues<V, W>(record: Readonly<Record<string, V>>, map: (value: V) => W): Record<string, W> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}

function queuesOfFile(file: GenDurableConfig | undefined): string[] {
  return isPlainObject(file?.queues) ? Object.keys(file.queues) : [];
}

function isEmptyObject(value: unknown): boolean {
  return isPlainObject(value) && Object.keys(value).length === 0;
}

function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== "";
}
