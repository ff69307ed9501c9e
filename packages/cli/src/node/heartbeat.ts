// Heartbeat: says every two seconds that this node lives, on a connection of its own in the main thread, where no
// step and no busy picker can delay it.
// H1  The heart beats only while the coordinator's loop turns: a node whose coordinator stands still is not alive.
// H2  A coordinator that stands still for half of `nodeTimeoutMs` ends the process (`onStandstill`). While the node starts
//     it is not judged: it holds no rows yet, and loading its modules can take long on a busy machine.
// H3  No row to update means that the node was declared dead: it registers under a new id (`onDeclaredDead`).
// H4  A lost connection is reported, reopened with backoff, and never ends the heartbeat.
// H5  What the database refuses for another reason (a right or a table that is missing) is no lost connection: it is reported as
//     what it is, and the next beat tries again on a new connection.

import { monotonicMs } from "#core/clock.js";
import { Connection } from "#core/database/connection.js";
import { classifyFailure } from "#core/database/failure.js";
import { Statements } from "#core/database/statements.js";
import type { Pulse } from "#core/pulse.js";
import type { NodeSettings } from "#core/settings.js";
import { type NodeIdentity, newNodeId } from "./identity.js";

const BEAT_INTERVAL_MS = 2_000;
/** A beat without an answer for so long counts as a lost connection. */
const ANSWER_TIMEOUT_MS = 5_000;
const RECONNECT_MS_MIN = 100;
const RECONNECT_MS_MAX = 5_000;

export interface HeartbeatEvents {
  onDeclaredDead(newId: string): void;
  onStandstill(standstillMs: number): void;
  /** The connection is lost, or another one could not be opened. */
  onLost(error: unknown): void;
  onBack(): void;
  onRefused(error: unknown): void;
  /** Called before each attempt to reconnect; the embedded server is brought back here. */
  beforeReconnect(): Promise<void>;
}

export class Heartbeat {
  readonly #settings: NodeSettings;
  readonly #identity: NodeIdentity;
  readonly #version: string;
  readonly #pulse: Pulse;
  readonly #events: HeartbeatEvents;
  readonly #statements: Statements;
  #node: string;
  #connection: Connection | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #reconnectMs = RECONNECT_MS_MIN;
  #watches = false;
  #seenTurns = -1;
  #turnedAtMs = monotonicMs();

  constructor(options: {
    node: string;
    settings: NodeSettings;
    identity: NodeIdentity;
    version: string;
    pulse: Pulse;
    events: HeartbeatEvents;
  }) {
    this.#node = options.node;
    this.#settings = options.settings;
    this.#identity = options.identity;
    this.#version = options.version;
    this.#pulse = options.pulse;
    this.#events = options.events;
    this.#statements = new Statements(options.settings.database.schema);
  }

  /** Opens the connection and enters the node. @throws whatever the database answers; nothing is retried yet. */
  async start(): Promise<void> {
    await this.#connect();
    await this.#register();
    this.#turnedAtMs = monotonicMs();
    this.#schedule(this.#intervalMs());
  }

  /** Ends the heartbeat. With `leave`, the node takes itself off the list; a failure to do so is left to the reapers. */
  async stop(options: { leave: boolean }): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    const connection = this.#connection;
    if (connection === undefined) return;
    if (options.leave && !connection.isLost) {
      await connection.run(this.#statements.get("node/delete_node"), [this.#node]).catch(() => undefined);
    }
    await connection.close();
  }

  /** The node runs: from now on the coordinator's turns are counted. */
  watchCoordinator(): void {
    this.#watches = true;
    this.#turnedAtMs = monotonicMs();
  }

  async #beat(): Promise<void> {
    const nowMs = monotonicMs();
    if (!this.#coordinatorTurns(nowMs)) return;
    const connection = this.#connection;
    if (connection === undefined || connection.isLost) return this.#reconnect();
    try {
      const rows = await connection.run(this.#statements.get("node/beat_node"), [this.#node]);
      if (rows.length === 0) await this.#rename();
      this.#pulse.confirm(nowMs, this.#settings.nodeTimeoutMs);
      this.#reconnectMs = RECONNECT_MS_MIN;
    } catch (error) {
      if (classifyFailure(error) === "connection") this.#lose(error);
      else this.#refused(error);
    }
  }

  /** H5. */
  #refused(error: unknown): void {
    const connection = this.#connection;
    this.#connection = undefined;
    void connection?.close();
    if (!this.#stopped) this.#events.onRefused(error);
  }

  /** H1, H2. */
  #coordinatorTurns(nowMs: number): boolean {
    if (!this.#watches) return true;
    const turns = this.#pulse.turns();
    if (turns !== this.#seenTurns) {
      this.#seenTurns = turns;
      this.#turnedAtMs = nowMs;
      return true;
    }
    const standstillMs = nowMs - this.#turnedAtMs;
    if (standstillMs >= this.#settings.nodeTimeoutMs / 2) this.#events.onStandstill(standstillMs);
    return standstillMs < this.#intervalMs();
  }

  /** A connection on which no beat succeeds is no way back either: the pauses grow until one does. */
  async #reconnect(): Promise<void> {
    this.#reconnectMs = Math.min(this.#reconnectMs * 2, RECONNECT_MS_MAX);
    try {
      await this.#events.beforeReconnect();
      await this.#connect();
    } catch (error) {
      if (!this.#stopped) this.#events.onLost(error);
      return;
    }
    this.#events.onBack();
    await this.#beat();
  }

  async #connect(): Promise<void> {
    this.#connection = await Connection.open(this.#settings.database, {
      role: "node",
      answerTimeoutMs: ANSWER_TIMEOUT_MS,
      onLost: (error) => this.#lose(error),
    });
    if (this.#stopped) await this.#connection.close();
  }

  #lose(error: unknown): void {
    if (this.#connection === undefined || this.#stopped) return;
    this.#connection.destroy();
    this.#connection = undefined;
    this.#events.onLost(error);
    this.#schedule(0);
  }

  async #register(): Promise<void> {
    await this.#connection?.run(this.#statements.get("node/register_node"), [
      this.#node,
      this.#settings.instance,
      this.#identity.hostname,
      this.#identity.bootId,
      this.#identity.pid,
      this.#version,
      Object.keys(this.#settings.queues),
    ]);
  }

  /** H3. */
  async #rename(): Promise<void> {
    this.#node = newNodeId();
    this.#pulse.break();
    await this.#register();
    this.#events.onDeclaredDead(this.#node);
  }

  #intervalMs(): number {
    return Math.min(BEAT_INTERVAL_MS, this.#settings.nodeTimeoutMs / 5);
  }

  #schedule(delayMs: number): void {
    if (this.#stopped) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      await this.#beat();
      this.#schedule(this.#connection === undefined ? this.#reconnectMs : this.#intervalMs());
    }, delayMs);
  }
}
