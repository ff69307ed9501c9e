// Database: the coordinator's connections. Pickers share a few, the keeper's short duties (leases, timers, marks) have
// one, the sweeper's long ones (reaper, collector) have one. Opened when first needed.
// DB1  A part's statement never waits behind another lane's: a long sweep cannot delay a lease.
// DB2  A lost connection is reopened with backoff (returns.ts), for ever. Main is told when the database goes and when it is back.
// DB3  A connection on which the server has refused a statement for no reason of the data's is replaced: its prepared plans may
//      be of another time (a schema that was migrated under them).
// DB4  While it is down every run() rejects at once. When it is back, leases are extended (`beforeBack`) before
//      anything is picked, and a picker has its connection again.
// DB5  Where one connection was gone without a word, idle ones are not trusted: each would cost its own patience to find out.
// DB6  A server that has no room for one connection more costs a lane nothing but breadth: its work shares those that it has.

import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#core/clock.js";
import { PICKER_CONNECTIONS_MAX } from "#core/config/connections.js";
import { lossOf } from "#core/database/advice.js";
import { Connection } from "#core/database/connection.js";
import { classifyFailure, isCrowded, isSilence } from "#core/database/failure.js";
import { patienceMs } from "#core/database/patience.js";
import { Statements } from "#core/database/statements.js";
import { TransientError } from "#core/errors.js";
import type { DatabaseSettings } from "#core/settings.js";
import type { Report } from "./report.js";
import { Returns } from "./returns.js";

export type Lane = "picker" | "keeper" | "sweeper";

/** The sweeper's statements may be long, and no lease depends on them. */
const SWEEPER_PATIENCE_MS = 60_000;

/** DB6: how long a lane makes do, and for how long it has when that is said again. */
const CROWDED_MS = 5_000;
const CROWDED_NEWS_MS = 60_000;

type Phase = { name: "up" } | { name: "returning" } | { name: "down" } | { name: "closed" };

interface LaneState {
  readonly max: number;
  /** DB6: before then (monotonic) no further connection is tried. */
  crowdedUntilMs: number;
  open: number;
  idle: Connection[];
  waiting: { resolve(connection: Connection): void; reject(error: unknown): void }[];
}

export interface DatabaseOptions {
  settings: DatabaseSettings;
  queueCount: number;
  /** What pickers and keeper do has to be done before a lease of so long is over. */
  leaseTtlMs: number;
  report: Report;
  /** The database is back, but nothing is picked yet: extend the leases. Runs on the keeper's lane. */
  beforeBack(): Promise<void>;
  /** Called when it goes, and when it is back for everybody. */
  onChange(isUp: boolean): void;
  /** Called with what is in the way, when it goes and for each try in vain to come back. */
  onAway(error: unknown): void;
}

export class Database {
  readonly statements: Statements;
  readonly #options: DatabaseOptions;
  readonly #lanes: Record<Lane, LaneState>;
  readonly #abort = new AbortController();
  #phase: Phase = { name: "up" };
  readonly #returns = new Returns();

  constructor(options: DatabaseOptions) {
    this.#options = options;
    this.statements = new Statements(options.settings.schema);
    const lane = (max: number): LaneState => ({
      max,
      crowdedUntilMs: Number.NEGATIVE_INFINITY,
      open: 0,
      idle: [],
      waiting: [],
    });
    this.#lanes = {
      picker: lane(Math.max(1, Math.min(options.queueCount, PICKER_CONNECTIONS_MAX))),
      keeper: lane(1),
      sweeper: lane(1),
    };
  }

  get isUp(): boolean {
    return this.#phase.name === "up";
  }

  /** Runs `work` on a connection of the lane. @throws TransientError while the database is down, and whatever `work` throws. */
  async run<T>(lane: Lane, work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = await this.#acquire(lane);
    let isSpent = false;
    try {
      return await work(connection);
    } catch (error) {
      const failure = classifyFailure(error);
      if (failure === "connection") {
        connection.destroy();
        this.#lose(error);
      }
      isSpent = failure === "other";
      throw error;
    } finally {
      this.#release(lane, connection, isSpent);
    }
  }

  /** DB5: drops the connections that nobody uses at this moment; they are opened anew when they are needed. */
  suspect(): void {
    for (const lane of Object.values(this.#lanes)) {
      const idle = lane.idle.splice(0);
      lane.open -= idle.length;
      for (const connection of idle) void connection.close();
    }
  }

  /** Closes every connection; what still runs is cut off after a moment. */
  async close(): Promise<void> {
    this.#phase = { name: "closed" };
    this.#abort.abort();
    for (const lane of Object.values(this.#lanes)) {
      for (const waiter of lane.waiting.splice(0)) waiter.reject(down());
      await Promise.all(lane.idle.splice(0).map((connection) => connection.close()));
    }
  }

  async #acquire(name: Lane): Promise<Connection> {
    const lane = this.#lanes[name];
    if (this.#phase.name !== "up" && !(this.#phase.name === "returning" && name === "keeper")) throw down();
    for (;;) {
      const idle = lane.idle.pop();
      if (idle === undefined) break;
      if (!idle.isLost) return idle;
      lane.open--;
    }
    if (lane.open < lane.max && (lane.open === 0 || monotonicMs() >= lane.crowdedUntilMs)) {
      lane.open++;
      try {
        return await this.#open(name);
      } catch (error) {
        lane.open--;
        if (!isCrowded(error) || lane.open === 0) {
          if (classifyFailure(error) === "connection") this.#lose(error);
          throw error;
        }
        this.#crowded(lane, error);
      }
    }
    return new Promise((resolve, reject) => lane.waiting.push({ resolve, reject }));
  }

  #release(name: Lane, connection: Connection, isSpent: boolean): void {
    const lane = this.#lanes[name];
    if (this.#phase.name === "closed" || connection.isLost || isSpent) {
      lane.open--;
      if (!connection.isLost) void connection.close();
      const waiter = lane.waiting.shift();
      // The waiter takes the place that has become free, or learns that the database is down.
      if (waiter !== undefined) this.#acquire(name).then(waiter.resolve, waiter.reject);
      return;
    }
    const waiter = lane.waiting.shift();
    if (waiter === undefined) lane.idle.push(connection);
    else waiter.resolve(connection);
  }

  async #open(lane: Lane): Promise<Connection> {
    const { settings, leaseTtlMs } = this.#options;
    const connection = await Connection.open(settings, {
      role: lane,
      answerTimeoutMs: lane === "sweeper" ? SWEEPER_PATIENCE_MS : patienceMs(leaseTtlMs),
      onLost: (error) => this.#lose(error),
    });
    if (settings.prepare) {
      const stateSession = lane === "picker" ? "picker/state_session" : "node/pin_plans";
      await connection.run(this.statements.get(stateSession));
    }
    return connection;
  }

  /** DB6. */
  #crowded(lane: LaneState, error: unknown): void {
    const nowMs = monotonicMs();
    const isNews = nowMs - lane.crowdedUntilMs > CROWDED_NEWS_MS;
    lane.crowdedUntilMs = nowMs + CROWDED_MS;
    if (!isNews) return;
    this.#options.report.log(
      "warn",
      "the database has no room for a connection more; queues share those that there are",
      {
        err: lossOf(error),
        open: lane.open,
        wanted: lane.max,
      },
    );
  }

  /** DB2. Later losses of the same outage say nothing. */
  #lose(error: unknown): void {
    if (this.#phase.name === "down" || this.#phase.name === "closed") return;
    const wasUp = this.#phase.name === "up";
    this.#phase = { name: "down" };
    for (const lane of Object.values(this.#lanes)) {
      for (const waiter of lane.waiting.splice(0)) waiter.reject(down());
    }
    if (!wasUp) return;
    if (isSilence(error)) this.suspect();
    this.#options.onAway(error);
    this.#options.onChange(false);
    void this.#reconnect();
  }

  async #reconnect(): Promise<void> {
    const sinceMs = performance.now();
    this.#returns.lost(sinceMs);
    for (;;) {
      const pauseMs = this.#returns.nextPauseMs();
      // A little jitter, so that nodes that lost one server do not return in step.
      const aborted = await delay(pauseMs * (0.75 + Math.random() / 2), false, {
        signal: this.#abort.signal,
      }).catch(() => true);
      if (aborted || this.#phase.name === "closed") return;
      if (await this.#tryReturn()) break;
    }
    this.#returns.back(performance.now());
    this.#options.onChange(true);
  }

  /** DB4. False when the database is not there yet, or went again meanwhile. */
  async #tryReturn(): Promise<boolean> {
    this.#phase = { name: "returning" };
    try {
      await this.#options.beforeBack();
      if (this.#options.queueCount > 0) await this.#ready(this.#lanes.picker);
    } catch (error) {
      if (this.isClosed) return false;
      this.#phase = { name: "down" };
      this.#options.onAway(error);
      this.#options.report.trouble("returning to the database", error);
      return false;
    }
    // #lose may have changed the phase while beforeBack ran.
    if ((this.#phase as Phase).name !== "returning") return false;
    this.#phase = { name: "up" };
    return true;
  }

  /** DB4: without a connection to claim over, the return would end at the next claim. */
  async #ready(lane: LaneState): Promise<void> {
    const lost = lane.idle.filter((connection) => connection.isLost);
    lane.idle = lane.idle.filter((connection) => !connection.isLost);
    lane.open -= lost.length;
    if (lane.open > 0) return;
    lane.open++;
    try {
      lane.idle.push(await this.#open("picker"));
    } catch (error) {
      lane.open--;
      throw error;
    }
  }

  get isClosed(): boolean {
    return this.#phase.name === "closed";
  }
}

function down(): TransientError {
  return new TransientError("CONNECTION_LOST", "the database cannot be reached");
}
