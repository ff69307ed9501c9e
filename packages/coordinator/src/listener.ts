// Listener: hears from other processes that a queue has work, or that a running step is to be cancelled; and tells them.
// Owns:  one LISTEN connection, which also sends this node's own pokes.
// LI1  A poke is a hint: whatever is lost here costs a poll.
// LI2  The connection is heart-beaten; lost or half open, that is noticed within 15 s, and it is reopened with backoff,
//      for ever. What was missed meanwhile is caught up by one pick of every queue (`onCatchUp`).
// LI3  Notifications of our own, and of this node's flushers, are ignored: the coordinator knows already.

import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#core/clock.js";
import { Connection } from "#core/database/connection.js";
import { quoteIdentifier, Statements } from "#core/database/statements.js";
import { decodePoke, encodePoke, PokeGate, pokeChannel } from "#core/poke.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import type { DatabaseSettings } from "#core/settings.js";
import { describeServerError, type Report } from "./report.js";

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
  /** Whether the loss of this connection deserves a line of its own: not while the database is down for everybody. */
  isDatabaseUp(): boolean;
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
  #running: Promise<void> | undefined;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#settings = { ...options.settings, url: options.settings.listenUrl ?? options.settings.url };
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
    let isTold = false;
    let pauseMs = 0;
    while (!this.#abort.signal.aborted) {
      const lost = await this.#listenOnce(() => {
        pauseMs = 0;
        if (!isFirst) this.#options.onCatchUp();
        if (isTold) this.#options.report.log("info", "pokes of other processes are heard again");
        isFirst = false;
        isTold = false;
      });
      this.#connection = undefined;
      if (this.#abort.signal.aborted) return;
      if (!isTold && this.#options.isDatabaseUp()) {
        isTold = true;
        this.#options.report.log(
          "warn",
          "pokes of other processes are not heard; the connection is being reopened",
          {
            err: describeServerError(lost),
          },
        );
      }
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
    const beat = setInterval(() => connection.command("SELECT 1").catch(lose), BEAT_INTERVAL_MS);
    try {
      await connection.command(`LISTEN ${quoteIdentifier(this.#channel)}`);
      onOpen();
      return await Promise.race([lost, aborted(this.#abort.signal)]);
    } catch (error) {
      return error;
    } finally {
      clearInterval(beat);
      await connection.close();
    }
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
