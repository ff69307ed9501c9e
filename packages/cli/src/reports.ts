// Reports: what `status` and `nodes` read, one statement each.

import type { Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import { STATUSES, type Status } from "#core/instance.js";

export interface NodeReport {
  id: string;
  instance: string;
  hostname: string;
  pid: number;
  version: string;
  queues: string[];
  startedAt: string;
  upMs: number;
  silentMs: number;
  /** It has been heard of within `nodeTimeoutMs`. */
  isAlive: boolean;
  executing: number;
}

export interface QueueReport {
  queue: string;
  counts: Record<Status, number>;
  /** Runnable now, not later. */
  due: number;
  /** How long the oldest that is due has been so. */
  waitingMs: number | null;
}

export interface VersionReport {
  fsm: string;
  version: number;
  /** What becomes of its code (commands/versions.ts explains). */
  state: "newest" | "in use" | "orphaned" | "idle";
  counts: Record<Status, number>;
  /** Instances that have not ended. */
  live: number;
  /** The age of the oldest of them. */
  oldestMs: number | null;
  /** Running nodes that have loaded it. */
  knownBy: number;
}

export interface StalledReport {
  reason: "unknown_fsm" | "unloaded_fsm" | "unserved_queue" | "unknown_rate_limit" | "lease_expired";
  fsm: string;
  version: number;
  queue: string;
  /** The rate limit, or the node whose lease has run out. */
  detail: string | null;
  instances: number;
  oldestId: number;
}

/** Reads the nodes. `nodeTimeoutMs` decides who counts as alive. */
export async function readNodes(
  connection: Connection,
  statements: Statements,
  nodeTimeoutMs: number,
): Promise<NodeReport[]> {
  const rows = await connection.run<{
    id: string;
    instance: string;
    hostname: string;
    pid: number;
    version: string;
    queues: string[];
    started_at: Date;
    up_ms: number;
    silent_ms: number;
    executing: number;
  }>(statements.get("cli/list_nodes"));
  return rows.map((row) => ({
    id: row.id,
    instance: row.instance,
    hostname: row.hostname,
    pid: row.pid,
    version: row.version,
    queues: row.queues,
    startedAt: row.started_at.toISOString(),
    upMs: Math.round(row.up_ms),
    silentMs: Math.round(row.silent_ms),
    isAlive: row.silent_ms <= nodeTimeoutMs,
    executing: row.executing,
  }));
}

/** Counts every queue's instances by status. */
export async function readQueues(connection: Connection, statements: Statements): Promise<QueueReport[]> {
  const rows = await connection.run<{
    queue: string;
    status: Status;
    instances: number;
    due: number;
    waiting_ms: number | null;
  }>(statements.get("cli/count_instances"));
  const byQueue = new Map<string, QueueReport>();
  for (const row of rows) {
    const none = Object.fromEntries(STATUSES.map((status) => [status, 0])) as Record<Status, number>;
    const report = byQueue.get(row.queue) ?? { queue: row.queue, counts: none, due: 0, waitingMs: null };
    report.counts[row.status] = row.instances;
    report.due += row.due;
    if (row.waiting_ms !== null) report.waitingMs = Math.round(row.waiting_ms);
    byQueue.set(row.queue, report);
  }
  return [...byQueue.values()];
}

/** Finds due work that no node will take as things are. */
export async function readStalled(
  connection: Connection,
  statements: Statements,
  nodeTimeoutMs: number,
): Promise<StalledReport[]> {
  const rows = await connection.run<{
    reason: StalledReport["reason"];
    fsm: string;
    version: number;
    queue: string;
    detail: string | null;
    instances: number;
    oldest_id: number;
  }>(statements.get("cli/list_stalled"), [nodeTimeoutMs]);
  return rows.map(({ oldest_id, ...rest }) => ({ ...rest, oldestId: oldest_id }));
}

/** Counts every version's instances by status, and the running nodes that know it. */
export async function readVersions(
  connection: Connection,
  statements: Statements,
  options: { nodeTimeoutMs: number; fsm: string | null },
): Promise<VersionReport[]> {
  const rows = await connection.run<
    Record<Status, number> & {
      fsm: string;
      version: number;
      oldest_ms: number | null;
      known_by: number;
      is_newest: boolean | null;
    }
  >(statements.get("cli/list_versions"), [options.nodeTimeoutMs, options.fsm]);
  return rows.map((row) => {
    const counts = Object.fromEntries(STATUSES.map((status) => [status, row[status]])) as Record<
      Status,
      number
    >;
    const live = STATUSES.filter((status) => status !== "done" && status !== "failed").reduce(
      (sum, status) => sum + counts[status],
      0,
    );
    return {
      fsm: row.fsm,
      version: row.version,
      state: stateOf({ live, knownBy: row.known_by, isNewest: row.is_newest === true }),
      counts,
      live,
      oldestMs: row.oldest_ms === null ? null : Math.round(row.oldest_ms),
      knownBy: row.known_by,
    };
  });
}

function stateOf({ live, knownBy, isNewest }: { live: number; knownBy: number; isNewest: boolean }) {
  if (live > 0 && knownBy === 0) return "orphaned";
  if (isNewest) return "newest";
  return live > 0 ? "in use" : "idle";
}
