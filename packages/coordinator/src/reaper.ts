// Reaper: takes back what was lost: rows whose lease has run out, rows of dead nodes, parents of which no child is left.
// R1  Nobody is judged by somebody who was away: leases and silent nodes only while this node has itself heart-beaten
//     without a gap for a whole timeout.
// R2  A node on this very machine whose process is gone is dead at once; that needs no waiting and no steadiness.
// R3  Whoever returns rows tells their queues.

import { monotonicMs } from "#core/clock.js";
import type { Connection } from "#core/database/connection.js";
import type { Pulse } from "#core/pulse.js";
import type { Database } from "./database.js";
import { Duty } from "./duty.js";
import { wakeOrphanedParents } from "./orphans.js";
import { reapRows } from "./reap.js";
import type { Report } from "./report.js";

/** A node's death is acted on so soon after it is due. */
const DEATH_SLACK_MS = 20;
const WATCH_MS_MIN = 50;
const RETRY_MS = 1_000;

export interface ReaperOptions {
  node(): string;
  intervalMs: number;
  leaseTtlMs: number;
  nodeTimeoutMs: number;
  pulse: Pulse;
  database: Database;
  report: Report;
  onReturned(queues: readonly string[]): void;
}

interface Neighbour {
  id: string;
  hostname: string;
  boot_id: string;
  pid: number;
  silent_ms: number;
  [column: string]: unknown;
}

type Own = { hostname: string; boot_id: string };

export class Reaper {
  readonly #options: ReaperOptions;
  #own: Own | undefined;
  readonly #sweeping: Duty;
  readonly #watching: Duty;
  /** Where the next look for orphaned parents starts. */
  #orphansAfterId = 0;

  constructor(options: ReaperOptions) {
    this.#options = options;
    const { report } = options;
    this.#sweeping = new Duty({
      name: "reaping expired leases",
      report,
      retryMs: RETRY_MS,
      run: () => this.#sweep(),
    });
    this.#watching = new Duty({
      name: "watching the other nodes",
      report,
      retryMs: RETRY_MS,
      run: () => this.#watch(),
    });
  }

  start(): void {
    this.#watching.start(0);
    this.#sweeping.start(Math.min(this.#options.intervalMs, this.#judgesLeasesInMs()));
  }

  async stop(): Promise<void> {
    await Promise.all([this.#sweeping.stop(), this.#watching.stop()]);
  }

  async #sweep(): Promise<number> {
    const { database, intervalMs } = this.#options;
    await database.run("sweeper", async (connection) => {
      if (this.#judgesLeasesInMs() <= 0) await this.#reap(connection, null);
      const { queues, afterId } = await wakeOrphanedParents(
        connection,
        database.statements,
        this.#orphansAfterId,
      );
      this.#orphansAfterId = afterId;
      if (queues.length > 0) this.#options.onReturned(queues);
    });
    // A young node sweeps as soon as it may judge.
    const inMs = this.#judgesLeasesInMs();
    return inMs > 0 ? Math.min(intervalMs, Math.max(inMs, WATCH_MS_MIN)) : intervalMs;
  }

  async #watch(): Promise<number> {
    const { database, nodeTimeoutMs } = this.#options;
    return database.run("sweeper", async (connection) => {
      const own = await this.#findOwn(connection);
      const neighbours = await connection.run<Neighbour>(database.statements.get("reaper/watch_nodes"), [
        this.#options.node(),
      ]);
      const gone = neighbours.filter((neighbour) => own !== undefined && isGone(neighbour, own));
      const judgesInMs = nodeTimeoutMs - this.#steadyMs();
      const silent = neighbours.filter(
        (neighbour) => !gone.includes(neighbour) && neighbour.silent_ms >= nodeTimeoutMs && judgesInMs <= 0,
      );
      if (gone.length > 0) await this.#bury(connection, gone, 0);
      if (silent.length > 0) await this.#bury(connection, silent, nodeTimeoutMs);
      return this.#nextWatchMs(
        neighbours.filter((neighbour) => !gone.includes(neighbour) && !silent.includes(neighbour)),
        judgesInMs,
      );
    });
  }

  /** Where this node runs; it stays there under every name. */
  async #findOwn(connection: Connection): Promise<Own | undefined> {
    if (this.#own !== undefined) return this.#own;
    const { database, node } = this.#options;
    const [own] = await connection.run<Own>(database.statements.get("reaper/find_own"), [node()]);
    this.#own = own;
    return own;
  }

  /** The rows of dead nodes go back, then the nodes go off the list. */
  async #bury(connection: Connection, dead: readonly Neighbour[], silentMs: number): Promise<void> {
    const { database, report } = this.#options;
    const ids = dead.map(({ id }) => id);
    const count = await this.#reap(connection, ids);
    const buried = await connection.run<{ id: string }>(database.statements.get("reaper/delete_nodes"), [
      ids,
      silentMs,
    ]);
    if (buried.length === 0) return;
    report.event("reclaim", { nodes: buried.map(({ id }) => id), count });
    report.log("warn", "a node is dead; its rows are runnable again", {
      nodes: buried.map(({ id }) => id),
      count,
    });
  }

  async #reap(connection: Connection, deadNodes: readonly string[] | null): Promise<number> {
    const { database, report } = this.#options;
    const reaped = await reapRows(connection, database.statements, {
      deadNodes,
      leaseTtlMs: this.#options.leaseTtlMs,
    });
    if (reaped.count > 0) {
      report.event("reap", { count: reaped.count, cancelled: reaped.cancelled });
      this.#options.onReturned(reaped.queues);
    }
    return reaped.count;
  }

  #nextWatchMs(neighbours: readonly Neighbour[], judgesInMs: number): number {
    const { nodeTimeoutMs } = this.#options;
    const deathsInMs = neighbours.map(
      ({ silent_ms }) => Math.max(nodeTimeoutMs - silent_ms, judgesInMs) + DEATH_SLACK_MS,
    );
    return Math.max(WATCH_MS_MIN, Math.min(nodeTimeoutMs / 2, ...deathsInMs));
  }

  /** R1: 0 or less when this node may judge leases. */
  #judgesLeasesInMs(): number {
    const { leaseTtlMs, nodeTimeoutMs } = this.#options;
    return Math.min(leaseTtlMs, nodeTimeoutMs) - this.#steadyMs();
  }

  #steadyMs(): number {
    return this.#options.pulse.steadyMs(monotonicMs(), this.#options.nodeTimeoutMs);
  }
}

/** R2: a process of this machine and process namespace that does not exist any more. */
function isGone(neighbour: Neighbour, own: Own): boolean {
  if (own.boot_id === "" || neighbour.boot_id !== own.boot_id || neighbour.hostname !== own.hostname)
    return false;
  try {
    process.kill(neighbour.pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
