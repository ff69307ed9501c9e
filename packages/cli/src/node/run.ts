// Run: one node in this process, from resolved settings to its end.
// Owns:     the coordinator thread, the heartbeat, the health server.
// N1  The node is entered in `nodes` before its coordinator starts, and leaves it after the last row is given back.
// N2  Crash-only: a coordinator or flusher that fails unexpectedly ends the process with status 1 and a last log line;
//     leases and the node's death return what it held.
// N3  A drain ends within twice `drainTimeoutMs`, whatever the database does.
// N4  Whoever asks for its health is answered from before the database is touched: starting is "not ready", no silence.

import { setTimeout as delay } from "node:timers/promises";
import type { MessagePort } from "node:worker_threads";
import { monotonicMs } from "#core/clock.js";
import { connectionsOf, totalOf } from "#core/config/connections.js";
import { lossOf } from "#core/database/advice.js";
import { isSilence } from "#core/database/failure.js";
import { GenDurableError, UsageError, unreachable } from "#core/errors.js";
import type { ExecutorLog } from "#core/protocol/executor.js";
import type { FromCoordinator } from "#core/protocol/node.js";
import { Pulse } from "#core/pulse.js";
import type { NodeSettings } from "#core/settings.js";
import { type CoordinatorThread, startCoordinatorThread } from "./coordinatorThread.js";
import { Counters } from "./counters.js";
import { hasSubscribers, publishEvent } from "./events.js";
import { type HealthServer, type NodeHealth, serveHealth } from "./health.js";
import { Heartbeat } from "./heartbeat.js";
import { newNodeId, readIdentity } from "./identity.js";
import type { NodeLog } from "./log.js";
import { Outage } from "./outage.js";
import { prepareSchema } from "./schema.js";

/** How a node ended. `failed` is only seen by who started it with `exitOnFailure: false`. */
export interface NodeEnd {
  reason: "stopped" | "finished" | "failed";
  /** Whether everything was handed back or committed; else leases and reapers return the rest. */
  clean: boolean;
  error?: Error;
}

export interface RunningNode {
  /** This boot's node id, as in the `nodes` table and in `locked_by`. */
  readonly id: string;
  /** Where health is served, when a port was given. */
  readonly healthUrl: string | undefined;
  /** Drains: stops picking, hands back, lets running steps finish for `drainTimeoutMs`, flushes. May be called twice. */
  stop(): Promise<NodeEnd>;
  /** Resolves when the node has ended, for whatever reason; never rejects. */
  readonly stopped: Promise<NodeEnd>;
}

export interface RunOptions {
  settings: NodeSettings;
  /** Which database it is and why, for people. */
  databaseText: string;
  version: string;
  log: NodeLog;
  /** End by itself when nothing is left to do. */
  once: boolean;
  /** Migrate first; else the schema must be there. */
  migrate: boolean;
  health: { host: string; port: number } | undefined;
  /** Ends the waiting for a database that takes no writes yet. */
  signal: AbortSignal | undefined;
  /** Environment of the node's threads. */
  env: NodeJS.ProcessEnv;
  /** Brings a server of our own back before a reconnect. */
  beforeReconnect(): Promise<void>;
  /** Called last, when nothing of the node runs any more. */
  afterEnd(): Promise<void>;
}

/** Time that the database's and the threads' own ends may take beside `drainTimeoutMs`. */
const DRAIN_MARGIN_MS = 500;
const START_STANDSTILL_MS = 60_000;
const COMPLAINT_INTERVAL_MS = 30_000;
/** How soon a new subscriber to the event of each step is noticed. */
const OBSERVE_INTERVAL_MS = 250;

/** Starts a node and resolves when it picks work. @throws GenDurableError when it cannot: nothing is left running then. */
export async function runNode(options: RunOptions): Promise<RunningNode> {
  const node = new NodeProcess(options);
  await node.start();
  return node;
}

class NodeProcess implements RunningNode {
  readonly #options: RunOptions;
  readonly #pulse = new Pulse();
  readonly #heartbeat: Heartbeat;
  readonly stopped: Promise<NodeEnd>;
  #id = newNodeId();
  #coordinator: CoordinatorThread | undefined;
  #healthServer: HealthServer | undefined;
  readonly #counters = new Counters();
  readonly #outage: Outage;
  #complainedAtMs = Number.NEGATIVE_INFINITY;
  #observing: NodeJS.Timeout | undefined;
  #health: NodeHealth;
  #phase: "starting" | "running" | "stopping" | "ended" = "starting";
  #resolveStopped: (end: NodeEnd) => void = () => undefined;
  #started: { resolve(): void; reject(error: Error): void } | undefined;
  #drained: { resolve(clean: boolean): void } | undefined;

  constructor(options: RunOptions) {
    this.#options = options;
    this.#outage = new Outage(options.log, monotonicMs);
    this.#health = {
      executorsReady: 0,
      executorsWanted: options.settings.workers,
      databaseUp: false,
      isStarting: true,
      isDraining: false,
      counters: {},
    };
    this.stopped = new Promise((resolve) => {
      this.#resolveStopped = resolve;
    });
    this.#heartbeat = new Heartbeat({
      node: this.#id,
      settings: options.settings,
      identity: readIdentity(),
      version: options.version,
      pulse: this.#pulse,
      events: {
        beforeReconnect: options.beforeReconnect,
        onDeclaredDead: (newId) => {
          options.log.write(
            "warn",
            "this node was declared dead while it was away; it goes on under a new id",
            { node: newId },
          );
          this.#id = newId;
          this.#coordinator?.send({ type: "renamed", node: newId });
        },
        onStandstill: (standstillMs) => {
          // A thread that loads its modules on a busy machine turns late, and holds nothing yet.
          if (this.#phase === "starting" && standstillMs < START_STANDSTILL_MS) return;
          this.#fail(new Error(`the coordinator thread has not turned for ${Math.round(standstillMs)} ms`));
        },
        onLost: (error) => {
          this.#outage.lost("heartbeat", error);
          if (isSilence(error)) this.#coordinator?.send({ type: "suspect" });
        },
        onBack: () => this.#outage.back("heartbeat"),
        onRefused: (error) => this.#complain(error),
      },
    });
  }

  get id(): string {
    return this.#id;
  }

  get healthUrl(): string | undefined {
    return this.#healthServer?.url;
  }

  async start(): Promise<void> {
    const { settings, health } = this.#options;
    try {
      const { migrate, databaseText, signal, log } = this.#options;
      if (health !== undefined) {
        this.#healthServer = await serveHealth({
          ...health,
          read: () => ({ ...this.#health, counters: this.#counters.read() }),
        });
        log.write("info", `health is served on ${this.#healthServer.url}`);
      }
      await prepareSchema({ database: settings.database, databaseText, migrate, log, signal });
      await this.#heartbeat.start();
      this.#health = { ...this.#health, databaseUp: true };
      await this.#startCoordinator();
    } catch (error) {
      this.#phase = "ended";
      await this.#coordinator?.terminate();
      await this.#heartbeat.stop({ leave: true });
      await this.#healthServer?.close();
      await this.#options.afterEnd();
      throw error;
    }
    this.#phase = "running";
    this.#health = { ...this.#health, isStarting: false };
    this.#observe();
    this.#heartbeat.watchCoordinator();
    this.#options.log.write("info", "the node is running", {
      node: this.#id,
      queues: settings.queues,
      workers: settings.workers,
      connections: totalOf(connectionsOf(settings)),
    });
  }

  async stop(): Promise<NodeEnd> {
    if (this.#phase === "running") await this.#drain("stopped");
    return this.stopped;
  }

  #startCoordinator(): Promise<void> {
    const started = new Promise<void>((resolve, reject) => {
      this.#started = { resolve, reject };
    });
    const coordinator = startCoordinatorThread(
      {
        node: this.#id,
        settings: this.#options.settings,
        pulse: this.#pulse.buffer,
        once: this.#options.once,
      },
      {
        env: this.#options.env,
        onMessage: (message) => this.#receive(message),
        onLogPort: (port) => this.#receiveLogs(port),
      },
    );
    this.#coordinator = coordinator;
    void coordinator.ended.then(({ code, error }) => {
      const cause = error ?? new Error(`the coordinator thread ended with code ${code}`);
      this.#started?.reject(cause);
      if (this.#phase === "running" || (this.#phase === "stopping" && error !== undefined)) this.#fail(cause);
      this.#drained?.resolve(false);
    });
    return started;
  }

  #receive(message: FromCoordinator): void {
    const { log } = this.#options;
    switch (message.type) {
      case "ready":
        this.#started?.resolve();
        return;
      case "refused":
        this.#started?.reject(new UsageError(message.code.replace(/^ERR_GEN_DURABLE_/, ""), message.message));
        return;
      case "health":
        this.#health = {
          ...this.#health,
          executorsReady: message.executorsReady,
          executorsWanted: message.executorsWanted,
          databaseUp: message.databaseUp,
        };
        return;
      case "steps":
        for (const step of message.steps) publishEvent("step", { ...step });
        return;
      case "connection":
        if (message.isUp) this.#outage.back(message.part);
        else this.#outage.lost(message.part, message.error);
        return;
      case "event":
        this.#counters.count(message.name, message.fields);
        publishEvent(message.name, message.fields);
        return;
      case "log":
        log.write(message.level, message.message, message.fields);
        return;
      case "fatal":
        this.#fail(Object.assign(new Error(message.message), { stack: message.stack }));
        return;
      case "drained":
        // Unasked for, it is the end of a `once` run.
        if (this.#drained === undefined) void this.#end({ reason: "finished", clean: message.clean });
        else this.#drained.resolve(message.clean);
        return;
      default:
        unreachable(message);
    }
  }

  /** The same refusal comes with every beat; the log hears of it now and then. */
  #complain(error: unknown): void {
    const nowMs = monotonicMs();
    if (nowMs - this.#complainedAtMs < COMPLAINT_INTERVAL_MS) return;
    this.#complainedAtMs = nowMs;
    this.#options.log.write("error", "the heartbeat: the database refuses a statement; it is tried again", {
      node: this.#id,
      err: lossOf(error),
    });
  }

  #receiveLogs(port: MessagePort): void {
    const { log } = this.#options;
    port.on("message", ({ records, dropped }: ExecutorLog) => {
      for (const record of records) log.record(record);
      if (dropped > 0)
        log.write("warn", "steps logged more than this node writes; records were dropped", { dropped });
    });
    // Logs must not keep a process alive that has nothing else to do.
    port.unref();
  }

  /** Steps are told of only while somebody subscribes: an event a step costs more than the step. */
  #observe(): void {
    let isObserved = false;
    const look = (): void => {
      if (hasSubscribers("step") === isObserved) return;
      isObserved = !isObserved;
      this.#coordinator?.send({ type: "observe", steps: isObserved });
    };
    look();
    this.#observing = setInterval(look, OBSERVE_INTERVAL_MS);
    this.#observing.unref();
  }

  /** N3. */
  async #drain(reason: "stopped"): Promise<void> {
    this.#phase = "stopping";
    this.#health = { ...this.#health, isDraining: true };
    const drained = new Promise<boolean>((resolve) => {
      this.#drained = { resolve };
    });
    this.#coordinator?.send({ type: "drain" });
    const boundMs = 2 * this.#options.settings.drainTimeoutMs - DRAIN_MARGIN_MS;
    const abort = new AbortController();
    const late = delay(Math.max(boundMs, DRAIN_MARGIN_MS), false, { signal: abort.signal }).catch(
      () => false,
    );
    const clean = await Promise.race([drained, late]);
    abort.abort();
    await this.#end({ reason, clean });
  }

  async #end(end: NodeEnd): Promise<void> {
    if (this.#phase === "ended") return;
    this.#phase = "ended";
    clearInterval(this.#observing);
    await this.#coordinator?.terminate();
    await this.#heartbeat.stop({ leave: end.clean });
    await this.#healthServer?.close();
    const { log } = this.#options;
    if (end.clean) log.write("info", "the node has ended", { node: this.#id });
    else
      log.write(
        "error",
        "the node has ended, but could not give everything back; other nodes will take it over",
        { node: this.#id },
      );
    await this.#options.afterEnd();
    await log.flush();
    this.#resolveStopped(end);
  }

  /** N2. */
  #fail(error: Error): void {
    if (this.#phase === "ended" || this.#phase === "starting") {
      this.#started?.reject(error);
      return;
    }
    this.#phase = "ended";
    const { log } = this.#options;
    log.write("error", "the node cannot go on; the process ends, and other nodes take its work over", {
      node: this.#id,
      err: describe(error),
    });
    this.#resolveStopped({ reason: "failed", clean: false, error });
    // A host that hangs in its own exit handlers must not keep a failed node's claims alive.
    void Promise.race([log.flush(), delay(1_000)]).finally(() => process.exit(1));
  }
}

function describe(error: unknown): Record<string, unknown> {
  const { message, stack } = error as Error;
  return error instanceof GenDurableError ? { code: error.code, message } : { message, stack };
}
