// Settings: what the configuration resolves to. Plain data, so that it travels to every thread as it is.
// Written once by core/src/config/ (defaults merged, everything validated); read by all, changed by nobody.

export interface DatabaseSettings {
  /** A `postgres://` URL, or undefined: libpq's PG* variables decide. */
  url: string | undefined;
  /** Where LISTEN connects when `url` is a pooler that cannot carry it; undefined: `url`. */
  listenUrl: string | undefined;
  /** The schema's name, unquoted. */
  schema: string;
  /** Named prepared statements; false behind a pooler that cannot keep them. */
  prepare: boolean;
  /** TLS beyond what `url` says of it; undefined: `url` decides. */
  ssl?: boolean | SslSettings | undefined;
  /** Whose connections they are, for pg_stat_activity: `<instance>/<pid>` of a node. */
  owner?: string | undefined;
}

/** What Node's TLS is given. Texts in PEM form, so that they travel to every thread. */
export interface SslSettings {
  ca?: string | string[] | undefined;
  cert?: string | undefined;
  key?: string | undefined;
  passphrase?: string | undefined;
  servername?: string | undefined;
  rejectUnauthorized?: boolean | undefined;
}

export interface FlusherSettings {
  /** The queues it serves, or "all". A queue goes to the first flusher that names it. */
  queues: readonly string[] | "all";
  maxBatch: number;
  maxDelayMs: number;
}

export interface RateLimitSettings {
  /** Tokens a second. */
  rate: number;
  burst: number;
  shards: number;
}

export interface ConcurrencyLimitSettings {
  limit: number;
  shards: number;
}

export interface NodeSettings {
  /** The operator's name for this node; defaults to the host's name. */
  instance: string;
  database: DatabaseSettings;
  /** JavaScript modules that export definitions, as absolute paths, already compiled. */
  modules: readonly DefinitionModule[];
  /** Steps at once, by queue. */
  queues: Readonly<Record<string, number>>;
  /** Executor threads; 0 where there are no queues. */
  workers: number;
  /** Heap of one executor thread, MiB. */
  workerHeapMb: number;
  flushers: readonly FlusherSettings[];
  rateLimits: Readonly<Record<string, RateLimitSettings>>;
  concurrencyLimits: Readonly<Record<string, ConcurrencyLimitSettings>>;
  leaseTtlMs: number;
  heartbeatIntervalMs: number;
  nodeTimeoutMs: number;
  pollIntervalMs: number;
  maxPollIntervalMs: number;
  prefetch: number | "auto";
  minDemand: number;
  reaper: { intervalMs: number } | false;
  gc: { intervalMs: number; retentionMs: number; batch: number } | false;
  poke: "postgres" | "local" | "none";
  drainTimeoutMs: number;
  maxPayloadBytes: number;
  crashLimit: number;
  /** How long a chain of steps that run ahead keeps its claim before it goes back to its queue. */
  inlineMaxMs: number;
  wait: { tickMs: number };
}

export interface DefinitionModule {
  /** The file the user wrote, for messages. */
  source: string;
  /** The file to import: the source itself, or what it was compiled to. */
  file: string;
}
