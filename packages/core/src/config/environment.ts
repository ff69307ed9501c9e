// Environment: what GEN_DURABLE_* variables state, as a partial configuration. An empty variable states nothing.

import { suggest } from "../name.js";

export type Environment = Readonly<Record<string, string | undefined>>;

/** A value that somebody stated, where it belongs in the configuration, and who stated it. */
export interface Statement {
  keys: readonly string[];
  value: unknown;
  origin: string;
}

type Reader = (text: string) => unknown;

const PREFIX = "GEN_DURABLE_";

const number: Reader = (text) => (/^\s*-?\d+(\.\d+)?\s*$/.test(text) ? Number(text) : text);
const boolean: Reader = (text) => {
  if (/^(1|true|yes|on)$/i.test(text)) return true;
  return /^(0|false|no|off)$/i.test(text) ? false : text;
};
/** A part that is an object of options, or switched off. */
const part: Reader = (text) => {
  const value = boolean(text);
  return value === true ? {} : value;
};
/** true, false, or an object of options as JSON. What is neither stays a text, so that the refusal shows it. */
const json: Reader = (text) => {
  const value = boolean(text);
  if (typeof value === "boolean") return value;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};
const list: Reader = (text) => text.split(",").map((item) => item.trim());
const text: Reader = (value) => value;

/** `false`: none of them. */
function noneOr(read: Reader): Reader {
  return (value) => (value === "false" ? {} : read(value));
}

const VARIABLES: Readonly<Record<string, readonly [keys: readonly string[], read: Reader]>> = {
  DATABASE_URL: [["database", "url"], text],
  LISTEN_URL: [["database", "listenUrl"], text],
  SCHEMA: [["database", "schema"], text],
  PREPARE: [["database", "prepare"], boolean],
  SSL: [["database", "ssl"], json],
  FSMS: [["fsms"], list],
  INSTANCE: [["instance"], text],
  QUEUES: [["queues"], noneOr(text)],
  WORKERS: [["workers"], number],
  WORKER_HEAP_MB: [["workerHeapMb"], number],
  LEASE_TTL_MS: [["leaseTtlMs"], number],
  HEARTBEAT_INTERVAL_MS: [["heartbeatIntervalMs"], number],
  NODE_TIMEOUT_MS: [["nodeTimeoutMs"], number],
  POLL_INTERVAL_MS: [["pollIntervalMs"], number],
  MAX_POLL_INTERVAL_MS: [["maxPollIntervalMs"], number],
  PREFETCH: [["prefetch"], number],
  MIN_DEMAND: [["minDemand"], number],
  REAPER: [["reaper"], part],
  GC: [["gc"], part],
  POKE: [["poke"], text],
  DRAIN_TIMEOUT_MS: [["drainTimeoutMs"], number],
  MAX_PAYLOAD_BYTES: [["maxPayloadBytes"], number],
  CRASH_LIMIT: [["crashLimit"], number],
  INLINE_MAX_MS: [["inlineMaxMs"], number],
};

/** Variables with our prefix that others read. */
const OTHERS = /^GEN_DURABLE_(CONFIG|EMBEDDED|PORT|HOST|DEBUG|LOG_LEVEL|LOG_FORMAT|TEST_.*|BENCH_.*)$/;

export function statementsOfEnvironment(env: Environment): { stated: Statement[]; warnings: string[] } {
  const stated: Statement[] = [];
  const warnings: string[] = [];
  for (const [variable, value] of Object.entries(env)) {
    if (!variable.startsWith(PREFIX) || value === undefined || value === "") continue;
    const name = variable.slice(PREFIX.length);
    const known = Object.hasOwn(VARIABLES, name) ? VARIABLES[name] : undefined;
    if (known !== undefined) stated.push({ keys: known[0], value: known[1](value), origin: variable });
    else if (!OTHERS.test(variable))
      warnings.push(`${variable} is no variable of gen-durable${suggest(name, Object.keys(VARIABLES))}`);
  }
  return { stated, warnings };
}

/** Whether GEN_DURABLE_EMBEDDED asks for the embedded server. */
export function asksForEmbedded(env: Environment): boolean {
  return boolean(env.GEN_DURABLE_EMBEDDED ?? "") === true;
}

/** Whether libpq's variables say where the database is. A password or an SSL mode alone does not. */
export function hasPgVariables(env: Environment): boolean {
  return ["PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"].some(
    (name) => (env[name] ?? "") !== "",
  );
}
