// Listener: hears from other processes that a queue has work, or that a running step is to be cancelled; and tells them.
// Owns:  one LISTEN connection, which also sends this node's own pokes.
// LI1  A poke is a hint: whatever is lost here costs a poll.
// LI2  The connection is heart-beaten; lost or half open, that is noticed within 15 s, and it is reopened with backoff,
//      for ever. What was missed meanwhile is caught up by one pick of every queue (`onCatchUp`).
// LI3  Notifications of our own, and of this node's flushers, are ignored: the coordinator knows already.
// LI4  A pooler in transaction mode cannot carry LISTEN: it says yes, and nothing is ever heard. Where the connection turns out
//      to go through one, that is said once, and the polls find the work. Pokes are still sent: NOTIFY passes.

import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#core/clock.js";
import { Connection } from "#core/database/connection.js";
import { quoteIdentifier, Statements } from "#core/database/statements.js";
import { decodePoke, encodePoke, PokeGate, pokeChannel } from "#core/poke.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import type { DatabaseSettings } from "#core/settings.js";
import type { Report } from "./report.js";

const BEAT_INTERVAL_MS = 5_000;
/** LI2: an interval and this together stay below 15 s. */
const ANSWER_TIMEOUT_MS = 8_000;
const RECONNECT_MS_MIN = 50;
const RECONNECT_MS_MAX = 2_000;

export interface ListenerOptions {
  settings: DatabaseSettings;
  report: Report;
  /** Whether a session's server process serves a flusher of this node. */
  isOwnFlusher(processId: number): boolean;
  /** The connection is lost or cannot be opened, and why; undefined: it stands. */
  onConnection(error: unknown): void;
  onPoke(queue: string, dueInMs: number): void;
  onCancel(id: number): void;
  onCatchUp(): void;
}

export class Listener {
  readonly #options: ListenerOptions;
  readonly #settings: DatabaseSettings;
  readonly #statements: Statements;
  readonly #channel: string;
  readonly #gate: PokeGate;
  readonly #abort = new AbortController();
  #connection: Connection | undefined;
  /** LI4. */
  #isDeaf = false;
  #running: Promise<void> | undefined;

  constructor(options: ListenerOptions) {
    this.#options = options;
    const { settings } = options;
    // A URL of its own is a direct one: a session there keeps what it is told.
    this.#settings =
      settings.listenUrl === undefined ? settings : { ...settings, url: settings.listenUrl, prepare: true };
    this.#statements = new Statements(options.settings.schema);
    this.#channel = pokeChannel(options.settings.schema);
    this.#gate = new PokeGate({ send: (payloads) => this.#send(payloads), nowMs: monotonicMs });
  }

  start(): void {
    this.#running = this.#listen();
  }

  /** Tells the other nodes that rows of these queues are due. */
  poke(dues: readonly QueueDue[]): void {
    const { now, later } = this.#gate.sort(dues);
    if (now.length > 0) this.#send(now.map((due) => encodePoke({ type: "due", ...due })));
    this.#gate.owe(later);
  }

  async stop(): Promise<void> {
    this.#gate.close();
    this.#abort.abort();
    await this.#connection?.close();
    await this.#running;
  }

  /** One round a connection, until stopped. */
  async #listen(): Promise<void> {
    let isFirst = true;
    let pauseMs = 0;
    while (!this.#abort.signal.aborted) {
      const lost = await this.#listenOnce(() => {
        pauseMs = 0;
        this.#options.onConnection(undefined);
        if (!isFirst) this.#options.onCatchUp();
        isFirst = false;
      });
      this.#connection = undefined;
      if (this.#abort.signal.aborted) return;
      this.#options.onConnection(lost);
      await delay(pauseMs * (0.75 + Math.random() / 2), undefined, { signal: this.#abort.signal }).catch(
        () => undefined,
      );
      pauseMs = Math.min(Math.max(pauseMs * 2, RECONNECT_MS_MIN), RECONNECT_MS_MAX);
    }
  }

  /** Resolves with what ended the connection, or kept it from opening. */
  async #listenOnce(onOpen: () => void): Promise<unknown> {
    let connection: Connection;
    let lose: (error: unknown) => void = () => undefined;
    const lost = new Promise<unknown>((resolve) => {
      lose = resolve;
    });
    try {
      connection = await Connection.open(this.#settings, {
        role: "listener",
        answerTimeoutMs: ANSWER_TIMEOUT_MS,
        onLost: (error) => lose(error),
        onNotification: (channel, payload, processId) => {
          if (channel !== this.#channel || processId === connection.processId) return;
          if (!this.#options.isOwnFlusher(processId)) this.#receive(payload);
        },
      });
    } catch (error) {
      return error;
    }
    this.#connection = connection;
    if (connection.isPooled && !this.#settings.prepare) this.#fallBack();
    const beat = setInterval(() => this.#beat(connection).catch(lose), BEAT_INTERVAL_MS);
    try {
      if (!this.#isDeaf) await connection.command(`LISTEN ${quoteIdentifier(this.#channel)}`);
      onOpen();
      return await Promise.race([lost, aborted(this.#abort.signal)]);
    } catch (error) {
      return error;
    } finally {
      clearInterval(beat);
      await connection.close();
    }
  }

  async #beat(connection: Connection): Promise<void> {
    const [row] = await connection.run<{ process: number }>(this.#statements.get("node/read_process"));
    // A pooler in session mode keeps the process for as long as the connection stands.
    if (connection.isPooled && row?.process !== connection.serverProcess) this.#fallBack();
  }

  /** LI4. */
  #fallBack(): void {
    if (this.#isDeaf) return;
    this.#isDeaf = true;
    this.#options.report.log(
      "warn",
      'the database is behind a pooler in transaction mode, which cannot carry LISTEN: this node finds the work of other processes by polling; name a direct URL in database.listenUrl (GEN_DURABLE_LISTEN_URL), or set poke to "none"',
    );
  }

  #receive(payload: string): void {
    const poke = decodePoke(payload);
    if (poke === undefined) return;
    if (poke.type === "cancel") this.#options.onCancel(poke.id);
    else this.#options.onPoke(poke.queue, poke.dueInMs);
  }

  #send(payloads: readonly string[]): void {
    const connection = this.#connection;
    if (connection === undefined || connection.isLost) return;
    // LI1: a poke that cannot be sent is lost; the loss of the connection is told by #listen.
    connection
      .run(this.#statements.get("flusher/poke_queues"), [this.#channel, payloads])
      .catch(() => undefined);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
