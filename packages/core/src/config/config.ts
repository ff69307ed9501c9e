// Config: what a user may state in gen-durable.config.ts, or hand to startNode. Everything has a default (configShape.ts).

export interface DatabaseConfig {
  /** A `postgres://` URL. Absent: DATABASE_URL, the PG* variables, or a server of the engine's own. */
  url?: string | undefined;
  /** Where LISTEN connects when `url` is a pooler that cannot carry it; absent: `url`. */
  listenUrl?: string | undefined;
  /** The schema that holds all tables; any name. Default "gen_durable". */
  schema?: string | undefined;
  /** Named prepared statements; false behind a pooler that cannot keep them. Default true. */
  prepare?: boolean | undefined;
  /** TLS: true verifies by the system's authorities; an object names others. Absent: `sslmode` in the URL decides. */
  ssl?: boolean | SslConfig | undefined;
}

/** As Node's TLS takes them; certificates and keys as PEM text. */
export interface SslConfig {
  /** The authorities that may have signed the server's certificate. */
  ca?: string | string[] | undefined;
  /** This client's certificate, its key and the key's passphrase. */
  cert?: string | undefined;
  key?: string | undefined;
  passphrase?: string | undefined;
  /** The name that the certificate must be for, where that is not the host. */
  servername?: string | undefined;
  /** false takes any certificate. */
  rejectUnauthorized?: boolean | undefined;
}

export interface FlusherConfig {
  /** The queues whose outcomes it commits, or "all". A queue goes to the first flusher that names it. */
  queues: readonly string[] | "all";
  /** Outcomes that start a commit. Default 100. */
  maxBatch?: number | undefined;
  /** Milliseconds after the first outcome that start a commit. Default 100. */
  maxDelayMs?: number | undefined;
}

export interface RateLimitConfig {
  /** Weight that may start in one period. */
  allowed: number;
  /** Milliseconds, or "<n> second(s) | minute(s) | hour(s) | day(s)". */
  period: number | string;
  /** Weight that may start at once after a pause. Default: `allowed`. */
  burst?: number | undefined;
  /** Rows that the counter is split into. Default 1. */
  shards?: number | undefined;
}

export interface ConcurrencyLimitConfig {
  /** Instances of one key that execute at once. */
  limit: number;
  /** Rows that the counter is split into, at most `limit`. Default 1. */
  shards?: number | undefined;
}

export interface InsertBatcherConfig {
  /** Rows that start an insert. Default 100. */
  maxRows?: number | undefined;
  /** Milliseconds after the first row that start an insert. Default 15. */
  maxDelayMs?: number | undefined;
  /** Rows that wait at most; beyond it, and at 0, `insertAsync` writes at once. Default 10000. */
  maxBuffered?: number | undefined;
}

export interface GenDurableConfig {
  /** Modules that export definitions: paths or globs, from the config file's folder. */
  fsms?: string | readonly string[] | undefined;
  /** This node's name for its operators; default: the host's name. */
  instance?: string | undefined;
  database?: DatabaseConfig | undefined;
  /** Steps that run at once on one node, by queue. `{}`: none, the node reaps and collects only. Default `{ default: 10 }`. */
  queues?: Readonly<Record<string, number>> | undefined;
  /** Executor threads. Default: the cores, at most 4. */
  workers?: number | undefined;
  /** Heap of one executor thread, MiB. Default 512. */
  workerHeapMb?: number | undefined;
  /** Who commits what. Default: one a queue, at most four, further queues share. */
  flushers?: readonly FlusherConfig[] | undefined;
  rateLimits?: Readonly<Record<string, RateLimitConfig>> | undefined;
  concurrencyLimits?: Readonly<Record<string, ConcurrencyLimitConfig>> | undefined;
  /** How long a claim is trusted without a heartbeat. Default 60000. */
  leaseTtlMs?: number | undefined;
  /** How often claims are extended; three should fit into a lease. Default 20000. */
  heartbeatIntervalMs?: number | undefined;
  /** A node that is silent for so long is dead. Default 10000. */
  nodeTimeoutMs?: number | undefined;
  /** How often an idle queue is looked at. Default 1000. */
  pollIntervalMs?: number | undefined;
  /** The longest such wait, after many empty looks. Default 5000, or `pollIntervalMs` where that is more. */
  maxPollIntervalMs?: number | undefined;
  /** Rows claimed ahead of free slots. Default "auto". */
  prefetch?: number | "auto" | undefined;
  /** Free places that are worth a claim. Default 1. */
  minDemand?: number | undefined;
  /** Takes back what dead nodes held; false: this node does not. */
  reaper?: { intervalMs?: number | undefined } | false | undefined;
  /** Deletes what has ended; false: this node does not. */
  gc?:
    | { intervalMs?: number | undefined; retentionMs?: number | undefined; batch?: number | undefined }
    | false
    | undefined;
  /** How nodes hear of new work before they poll. Default "postgres" (LISTEN/NOTIFY). */
  poke?: "postgres" | "local" | "none" | undefined;
  /** How long running steps may take to end at a shutdown. Default 5000. */
  drainTimeoutMs?: number | undefined;
  /** Bytes of one state, result or payload as JSON. Default 4194304. */
  maxPayloadBytes?: number | undefined;
  /** Crashes of one visit of a step after which it is not run again. Default 10. */
  crashLimit?: number | undefined;
  /** How long a chain of steps that run ahead (`inline`) keeps its claim before its row goes back to its queue, so that what is
   *  more urgent there gets its turn. Default 5000. */
  inlineMaxMs?: number | undefined;
  /** How often the waiters of results are served. */
  wait?: { tickMs?: number | undefined } | undefined;
  /** How `insertAsync` of clients that are made without arguments gathers rows. Default false: each is written at once. */
  insertBatcher?: InsertBatcherConfig | false | undefined;
}

/** Types a configuration; it is checked when a node or a command reads it. */
export function defineConfig(config: GenDurableConfig): GenDurableConfig {
  return config;
}
