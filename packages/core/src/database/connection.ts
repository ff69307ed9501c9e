// Connection: one session with Postgres, owned by one part of one thread.
// D1  Settings that the engine relies on are stated by the session itself, never inherited from the role:
//     READ COMMITTED, no JIT, no statement timeout of the user's, UTC-safe text output.
// D2  Types are parsed by this client alone; the global parsers of `pg` stay as the host application set them.
// D3  A lost connection is an event, never an uncaught error: `onLost` is called once, later calls reject.

import pg from "pg";
import { InvariantError, TransientError } from "../errors.js";
import type { DatabaseSettings } from "../settings.js";
import { type Statement, Statements } from "./statements.js";

const CONNECT_TIMEOUT_MS = 10_000;
const KEEPALIVE_DELAY_MS = 5_000;

export type Value = string | number | boolean | null | Date | readonly (string | number | boolean | null)[];
export type Row = Record<string, unknown>;

export interface ConnectionOptions {
  /** Shown in pg_stat_activity as `gen-durable <role>`. */
  role: string;
  /** Called once, when an open connection is lost. */
  onLost?: (error: Error) => void;
  /** `processId`: the server process of the session that sent it. */
  onNotification?: (channel: string, payload: string, processId: number) => void;
  /** A statement without an answer for so long means that the peer is gone without a word: the connection is given up. */
  answerTimeoutMs?: number;
}

/** What a plain module needs of a connection: one that runs statements. The testing helpers put a test's client behind it. */
export type Runner = Pick<Connection, "run">;

export class Connection {
  readonly #client: pg.Client;
  readonly #prepare: boolean;
  readonly #answerTimeoutMs: number | undefined;
  #lost = false;
  #closing = false;

  private constructor(client: pg.Client, prepare: boolean, answerTimeoutMs: number | undefined) {
    this.#client = client;
    this.#prepare = prepare;
    this.#answerTimeoutMs = answerTimeoutMs;
  }

  /** Opens a connection and states its session settings. @throws TransientError when the database cannot be reached. */
  static async open(settings: DatabaseSettings, options: ConnectionOptions): Promise<Connection> {
    const client = new pg.Client(clientConfig(settings, options.role));
    const connection = new Connection(client, settings.prepare, options.answerTimeoutMs);
    const lose = (error: Error): void => {
      if (connection.#lost) return;
      connection.#lost = true;
      if (!connection.#closing) options.onLost?.(error);
    };
    client.on("error", lose);
    client.on("end", () =>
      lose(new TransientError("CONNECTION_LOST", "the connection to the database was closed")),
    );
    if (options.onNotification !== undefined) {
      const notify = options.onNotification;
      client.on("notification", (message) =>
        notify(message.channel, message.payload ?? "", message.processId),
      );
    }
    try {
      await client.connect();
      // Behind a transaction pooler a session setting would reach somebody else; there each transaction states its own.
      if (settings.prepare)
        await client.query(new Statements(settings.schema).get("node/state_session").text);
    } catch (error) {
      connection.#closing = true;
      connection.#lost = true;
      client.end().catch(() => undefined);
      throw error;
    }
    return connection;
  }

  get isLost(): boolean {
    return this.#lost;
  }

  /** The server process of this session: whose notifications are our own. */
  get processId(): number | undefined {
    // `pg` sets it when the session starts; its types do not know it.
    return (this.#client as unknown as { processID?: number }).processID;
  }

  /** Runs one statement and returns its rows. Named and prepared where the database's settings allow it. */
  async run<R extends Row = Row>(statement: Statement, values: readonly Value[] = []): Promise<R[]> {
    const query = this.#prepare
      ? { name: statement.name, text: statement.text, values: values as unknown[] }
      : { text: statement.text, values: values as unknown[] };
    const result = await this.#answered(this.#client.query(query));
    return result.rows as R[];
  }

  /** Runs text that cannot be prepared (BEGIN, COMMIT, LISTEN, DDL). Never holds a user's value. */
  async command(text: string): Promise<void> {
    await this.#answered(this.#client.query(text));
  }

  /**
   * Runs `body` in one READ COMMITTED transaction; rolls back and rethrows when it throws.
   * `lockTimeoutMs` bounds waits that cannot be skipped.
   */
  async transaction<T>(body: () => Promise<T>, options: { lockTimeoutMs?: number } = {}): Promise<T> {
    await this.command(beginText(!this.#prepare, options.lockTimeoutMs));
    try {
      const value = await body();
      await this.command("COMMIT");
      return value;
    } catch (error) {
      if (!this.#lost) await this.command("ROLLBACK").catch(() => undefined);
      throw error;
    }
  }

  /** Passes an answer on; without one in time it destroys the socket, which rejects the query and reports the loss. */
  async #answered<T>(answer: Promise<T>): Promise<T> {
    if (this.#answerTimeoutMs === undefined) return answer;
    const timer = setTimeout(() => this.destroy(), this.#answerTimeoutMs);
    try {
      return await answer;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Cuts the connection without a farewell. */
  destroy(): void {
    // `pg` has no public way to cut a socket; `connection.stream` is what its own pool destroys.
    const { connection } = this.#client as unknown as { connection: { stream: { destroy(): void } } };
    connection.stream.destroy();
  }

  /** Ends the connection; never rejects and never waits longer than `timeoutMs` for the server's farewell. */
  async close(timeoutMs = 1_000): Promise<void> {
    this.#closing = true;
    let timer: NodeJS.Timeout | undefined;
    const bound = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([this.#client.end().catch(() => undefined), bound]);
    clearTimeout(timer);
  }
}

/** BEGIN, with everything a transaction behind a pooler must state for itself. */
export function beginText(statesSettings: boolean, lockTimeoutMs?: number): string {
  const begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
  const lock = lockTimeoutMs === undefined ? "" : `; SET LOCAL lock_timeout = ${Math.ceil(lockTimeoutMs)}`;
  const settings = statesSettings
    ? "; SET LOCAL jit = off; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = '60s'"
    : "";
  return `${begin}${settings}${lock}`;
}

/** What every connection of ours is opened with. */
export function clientConfig(settings: DatabaseSettings, role: string): pg.ClientConfig {
  return {
    ...(settings.url === undefined ? {} : { connectionString: settings.url }),
    application_name: `gen-durable ${role}`,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_DELAY_MS,
    types: engineTypes,
  } as pg.ClientConfig;
}

const INT8 = 20;
const JSONB = 3802;
const JSON_TYPE = 114;
const INT8_ARRAY = 1016;

/** How the engine's clients parse values; handed to each client, never set globally. */
export const engineTypes = { getTypeParser: typeParser } as pg.CustomTypesConfig;

/** `bigint` becomes a number and is refused past 2^53; `jsonb` stays text; everything else is `pg`'s own. */
function typeParser(oid: number, format?: "text" | "binary"): unknown {
  switch (oid) {
    case INT8:
      return parseBigint;
    case JSONB:
    case JSON_TYPE:
      return (text: string) => text;
    case INT8_ARRAY:
      return (text: string) => (text === "{}" ? [] : text.slice(1, -1).split(",").map(parseBigint));
    default:
      return pg.types.getTypeParser(oid, format as "text");
  }
}

function parseBigint(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value))
    throw new InvariantError(`the database holds ${text}, which a JavaScript number cannot`);
  return value;
}
