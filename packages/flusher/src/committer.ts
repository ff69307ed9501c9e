// Committer: the flusher's way to the database. Owns its one connection; nobody else uses it.
// C1  It never gives up: a lost connection is opened again, however often and for however long.
// C2  Nothing is lost and nothing done twice: what became of an unanswered COMMIT is asked before anything is sent again.
//     A connection that does not answer for half a lease (patience.ts) is lost, too.
// C3  One thing at a time: the caller waits for an answer before it asks for the next.
// C4  What neither data, contention nor the connection explains is tried once more on a new connection (a schema that was
//     migrated under a prepared plan); then it is thrown, and the thread ends.

import { setTimeout as sleep } from "node:timers/promises";
import { monotonicMs } from "#core/clock.js";
import { lossOf } from "#core/database/advice.js";
import { Connection } from "#core/database/connection.js";
import { classifyFailure } from "#core/database/failure.js";
import { patienceMs } from "#core/database/patience.js";
import { Statements } from "#core/database/statements.js";
import { InvariantError } from "#core/errors.js";
import { PokeGate, pokeChannel } from "#core/poke.js";
import type { FromFlusher, LostRow } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import type { DatabaseSettings, NodeSettings } from "#core/settings.js";
import { textArray } from "./arrays.js";
import {
  emptyResult,
  type FlushEnv,
  type FlushResult,
  LOCK_TIMEOUT_MS,
  mergeResult,
  ownTransaction,
} from "./env.js";
import { FlushInterrupted, flush, type Unanswered } from "./flush.js";
import { type GiveBackResult, giveBack } from "./giveBack.js";
import { fateOf, readServer } from "./recovery.js";

const REOPEN_DELAY_MS = 50;
const REOPEN_DELAY_MS_MAX = 2_000;

export interface CommitterOptions {
  database: DatabaseSettings;
  leaseTtlMs: number;
  poke: NodeSettings["poke"];
  report: (message: FromFlusher) => void;
  /** The gate's window has closed: these payloads are to be sent with `poke`. */
  onOwedPokes: (payloads: readonly string[]) => void;
}

export class Committer {
  readonly #options: CommitterOptions;
  readonly #env: FlushEnv;
  #connection: Connection | undefined;
  #server: string | null = null;
  /** Tries to connect in a row that failed; at least 1 while the last connection has brought nothing to its end. */
  #failures = 0;
  #isDown = false;
  #working = 0;
  #closing = false;
  /** What the gate gives up when it is closed. */
  readonly #lastPokes: string[] = [];

  constructor(options: CommitterOptions) {
    this.#options = options;
    const { database, leaseTtlMs, poke, onOwedPokes } = options;
    this.#env = {
      statements: new Statements(database.schema),
      transaction: ownTransaction(database.prepare),
      leaseTtlMs,
      asOf: null,
      poke:
        poke === "postgres"
          ? {
              channel: pokeChannel(database.schema),
              gate: new PokeGate({
                send: (payloads) =>
                  this.#closing ? this.#lastPokes.push(...payloads) : onOwedPokes(payloads),
                nowMs: monotonicMs,
              }),
            }
          : null,
    };
  }

  /** Opens the connection. Resolves when it stands, however long that takes. */
  async open(): Promise<void> {
    await this.#run(async () => undefined);
  }

  /** Commits outcomes; resolves when each of them has its answer. */
  async flush(outcomes: readonly WireOutcome[]): Promise<FlushResult> {
    const total = emptyResult();
    const resent = new Set<WireOutcome>();
    let rest = outcomes;
    let question: { asked: Unanswered; server: string | null } | null = null;
    await this.#run(async (connection) => {
      if (question !== null) {
        const { asked, server } = question;
        // A transaction id says nothing on another server.
        const sameServer = server !== null && server === this.#server;
        const fate = sameServer ? await fateOf(connection, this.#env.statements, asked) : "unknown";
        question = null;
        if (fate === "committed") {
          mergeResult(total, asked.result);
          this.#env.poke?.gate.owe(asked.owed);
        } else {
          if (fate === "unknown") for (const outcome of asked.outcomes) resent.add(outcome);
          rest = [...asked.outcomes, ...rest];
        }
      }
      try {
        mergeResult(total, await flush(connection, rest, { ...this.#env, resent }));
      } catch (error) {
        if (error instanceof FlushInterrupted) {
          mergeResult(total, error.done);
          rest = error.rest;
          if (error.unanswered !== null) question = { asked: error.unanswered, server: this.#server };
        }
        throw error;
      }
    });
    return total;
  }

  /** Returns rows that will not be run. */
  giveBack(rows: readonly LostRow[]): Promise<GiveBackResult> {
    return this.#run((connection) => giveBack(connection, rows, this.#env));
  }

  /** Sends pokes that were held back. A hint: lost with its connection. */
  async poke(payloads: readonly string[]): Promise<void> {
    const { poke, statements } = this.#env;
    if (poke === null || this.#connection === undefined || this.#connection.isLost) return;
    try {
      await this.#connection.run(statements.get("flusher/poke_queues"), [poke.channel, textArray(payloads)]);
    } catch {
      this.#drop();
    }
  }

  /** Sends what is still owed and closes the connection. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#env.poke?.gate.close();
    if (this.#lastPokes.length > 0) await this.poke(this.#lastPokes);
    await this.#connection?.close();
  }

  /** Opens the connection anew at its next use, unless it is at work: then its own patience decides. */
  suspect(): void {
    if (this.#working === 0) this.#drop();
  }

  /** Runs `body` until the connection holds for the whole of it. */
  async #run<T>(body: (connection: Connection) => Promise<T>): Promise<T> {
    this.#working++;
    try {
      return await this.#insist(body);
    } finally {
      this.#working--;
    }
  }

  async #insist<T>(body: (connection: Connection) => Promise<T>): Promise<T> {
    let puzzled = false;
    for (;;) {
      try {
        const connection = await this.#connected();
        const value = await body(connection);
        this.#failures = 0;
        return value;
      } catch (error) {
        const cause = error instanceof FlushInterrupted ? error.cause : error;
        const isLost = classifyFailure(cause) === "connection";
        if (!isLost && (puzzled || cause instanceof InvariantError)) throw cause;
        puzzled ||= !isLost;
        if (isLost) this.#down(cause);
        else
          this.#log("warn", "the database refuses a statement; it is tried again on a new connection", cause);
        this.#drop();
      }
    }
  }

  async #connected(): Promise<Connection> {
    const { database, leaseTtlMs } = this.#options;
    while (this.#connection === undefined || this.#connection.isLost) {
      if (this.#failures > 0) await sleep(reopenDelayMs(this.#failures));
      this.#failures++;
      let connection: Connection | undefined;
      try {
        connection = await Connection.open(database, {
          role: "flusher",
          answerTimeoutMs: patienceMs(leaseTtlMs),
        });
        const { statements } = this.#env;
        if (database.prepare)
          await connection.run(statements.get("flusher/state_session"), [String(LOCK_TIMEOUT_MS)]);
        this.#server = await readServer(connection, statements);
        this.#connection = connection;
        this.#options.report({ type: "session", processId: connection.processId });
        this.#failures = 1;
        this.#up();
      } catch (error) {
        void connection?.close();
        this.#down(error);
      }
    }
    return this.#connection;
  }

  #drop(): void {
    void this.#connection?.close();
    this.#connection = undefined;
  }

  /** A loss in the middle of the work, or a try in vain to open another connection. Main tells of it (core/protocol/node.ts). */
  #down(error: unknown): void {
    this.#isDown = true;
    this.#options.report({ type: "database", up: false, error: lossOf(error) });
  }

  #up(): void {
    if (!this.#isDown) return;
    this.#isDown = false;
    this.#options.report({ type: "database", up: true });
  }

  #log(level: "info" | "warn", message: string, error: unknown): void {
    this.#options.report({ type: "log", level, message, fields: { err: lossOf(error) } });
  }
}

function reopenDelayMs(failures: number): number {
  return Math.min(REOPEN_DELAY_MS * 2 ** (failures - 1), REOPEN_DELAY_MS_MAX) * (0.5 + Math.random() / 2);
}
