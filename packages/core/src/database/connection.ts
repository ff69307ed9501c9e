// Connection: one session with Postgres, owned by one part of one thread.
// D1  Settings that the engine relies on are stated by the session itself, never inherited from the role:
//     READ COMMITTED, no JIT, no statement timeout of the user's, UTC-safe text output.
// D2  Types are parsed by this client alone; the global parsers of `pg` stay as the host application set them.
// D3  A lost connection is an event, never an uncaught error: `onLost` is called once, later calls reject.
// D4  Behind a transaction pooler (`prepare: false`) a session is everybody's: nothing is set on it. Each transaction states
//     what the role's defaults make necessary, and where they do, a lone statement is a transaction too.
// D5  A standby is no place for the engine: a connection to one is refused when it opens.

import pg from "pg";
import { TransientError, UsageError } from "../errors.js";
import type { DatabaseSettings } from "../settings.js";
import { type Address, type ServerAddress, serverConfig } from "./address.js";
import { adviceFor, isPoolerCollision, isTlsRefusal, messageOf } from "./advice.js";
import { classifyFailure } from "./failure.js";
import { engineTypes } from "./parsers.js";
import { Servers } from "./servers.js";
import { type Statement, Statements } from "./statements.js";

const CONNECT_TIMEOUT_MS = 10_000;
const KEEPALIVE_DELAY_MS = 5_000;

export type Value = string | number | boolean | null | Date | readonly (string | number | boolean | null)[];
export type Row = Record<string, unknown>;

export interface ConnectionOptions {
  /** Shown in pg_stat_activity as `gen-durable <role>`, and whose it is. */
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
  readonly #servers: Servers;
  readonly #prepare: boolean;
  #answerTimeoutMs: number | undefined = CONNECT_TIMEOUT_MS;
  #lost = false;
  #closing = false;
  #lose: (error: Error) => void = () => undefined;
  /** D4: `SET LOCAL ...`, or "". */
  #stated = "";
  /** D4: lone statements that are transactions come one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Whether a transaction of the caller's is open. */
  #isOpen = false;
  #serverProcess: number | undefined;

  private constructor(client: pg.Client, servers: Servers, prepare: boolean) {
    this.#client = client;
    this.#servers = servers;
    this.#prepare = prepare;
  }

  /**
   * Opens a connection to the server that takes writes, and states its session settings.
   * @throws TransientError where there is none, or its certificate is not trusted; what Postgres or the network says; UsageError
   */
  static async open(settings: DatabaseSettings, options: ConnectionOptions): Promise<Connection> {
    const servers = Servers.of(settings);
    const { address, server } = await servers.choose();
    const client = new pg.Client(clientConfig(address, server, sessionName(options.role, settings.owner)));
    const connection = new Connection(client, servers, settings.prepare);
    const lose = (error: Error): void => {
      if (connection.#lost) return;
      connection.#lost = true;
      servers.doubt();
      if (!connection.#closing) options.onLost?.(error);
    };
    connection.#lose = lose;
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
      await connection.#begin(new Statements(settings.schema));
      connection.#answerTimeoutMs = options.answerTimeoutMs;
    } catch (error) {
      connection.#closing = true;
      connection.#lost = true;
      servers.doubt();
      client.end().catch(() => undefined);
      throw explainRefusal(error, server);
    }
    return connection;
  }

  /** D4, D5. */
  async #begin(statements: Statements): Promise<void> {
    const { text } = statements.get(this.#prepare ? "node/state_session" : "node/find_defaults");
    const { rows } = await this.#answered(this.#client.query<SessionFacts>(text));
    const [facts] = rows;
    if (facts?.in_recovery === true) throw new TransientError("STANDBY", STANDBY);
    this.#stated = facts?.stated ?? "";
    this.#serverProcess = facts?.process;
  }

  get isLost(): boolean {
    return this.#lost;
  }

  /** The server process of this session, whose notifications are our own; undefined behind a pooler, where it may change. */
  get processId(): number | undefined {
    return this.isPooled ? undefined : this.#serverProcess;
  }

  /** The server process that answered when the session opened; behind a pooler it may be another one by now. */
  get serverProcess(): number | undefined {
    return this.#serverProcess;
  }

  /** Whether something stands between this client and the server: the session is another than the one that it was told of. */
  get isPooled(): boolean {
    // `pg` sets it when the session starts; its types do not know it.
    const told = (this.#client as unknown as { processID?: number }).processID;
    return told !== this.#serverProcess;
  }

  /** Runs one statement and returns its rows. Named and prepared where the database's settings allow it. */
  async run<R extends Row = Row>(statement: Statement, values: readonly Value[] = []): Promise<R[]> {
    const query = this.#prepare
      ? { name: statement.name, text: statement.text, values: values as unknown[] }
      : { text: statement.text, values: values as unknown[] };
    // D4. Within a transaction its BEGIN has said everything.
    if (this.#stated !== "" && !this.#isOpen) return this.#inTurn(() => this.#alone<R>(query));
    return this.#answer<R>(query);
  }

  async #answer<R extends Row>(query: pg.QueryConfig): Promise<R[]> {
    const result = await this.#answered(this.#client.query(query));
    return result.rows as R[];
  }

  async #alone<R extends Row>(query: pg.QueryConfig): Promise<R[]> {
    await this.#send(beginText(true));
    try {
      const rows = await this.#answer<R>(query);
      await this.#send("COMMIT");
      return rows;
    } catch (error) {
      if (!this.#lost) await this.#send("ROLLBACK").catch(() => undefined);
      throw error;
    }
  }

  #inTurn<T>(body: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(body);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  /** Runs text that cannot be prepared (BEGIN, COMMIT, LISTEN, DDL). Never holds a user's value. */
  async command(text: string): Promise<void> {
    try {
      await this.#send(text);
    } finally {
      if (/^BEGIN/.test(text)) this.#isOpen = true;
      else if (/^(COMMIT|ROLLBACK(?! TO))/.test(text)) this.#isOpen = false;
    }
  }

  async #send(text: string): Promise<void> {
    await this.#answered(this.#client.query(this.#stating(text)));
  }

  /** D4. What is stated for its own sake (a lock timeout) comes after it in the text, and wins. */
  #stating(text: string): string {
    return this.#stated === "" ? text : text.replace(/^BEGIN[^;]*/, `$&; ${this.#stated}`);
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

  /** Passes an answer on; without one in time it reports the loss and destroys the socket, which rejects the query. */
  async #answered<T>(answer: Promise<T>): Promise<T> {
    const timeoutMs = this.#answerTimeoutMs;
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => this.#giveUp(timeoutMs), timeoutMs);
    try {
      return await answer;
    } catch (error) {
      if (isPoolerCollision(error)) throw new UsageError("POOLER", adviceFor(error) ?? "", { cause: error });
      if (classifyFailure(error) === "connection") this.#servers.doubt();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #giveUp(timeoutMs: number): void {
    this.#lose(new TransientError("NO_ANSWER", `the database has not answered for ${timeoutMs} ms`));
    this.destroy();
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

/** What Postgres keeps of a session's name, less the pid and what stands before the owner. */
const OWNER_CHARACTERS_MAX = 32;

/** A session's name: who is who in pg_stat_activity. */
export function sessionName(role: string, owner: string | undefined): string {
  if (owner === undefined) return `gen-durable ${role}`;
  const slash = owner.lastIndexOf("/");
  return `gen-durable ${role} ${owner.slice(0, slash).slice(0, OWNER_CHARACTERS_MAX)}${owner.slice(slash)}`;
}

/** What every connection of ours is opened with. */
export function clientConfig(address: Address, server: ServerAddress, name: string): pg.ClientConfig {
  return {
    ...serverConfig(address, server),
    application_name: name,
    connectionTimeoutMillis: address.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_DELAY_MS,
    types: engineTypes,
  };
}

/** What a session says of itself when it opens (node/state_session, node/find_defaults). */
export interface SessionFacts {
  in_recovery: boolean;
  process: number;
  stated?: string;
}

export const STANDBY = "the server is a standby (in recovery): it takes no writes until it is promoted";

/** Says which server it was and what to do; a refused certificate may be another one at the next try. */
function explainRefusal(error: unknown, server: ServerAddress): unknown {
  if (!isTlsRefusal(error)) return error;
  return new TransientError("TLS", `${server.name}: ${messageOf(error)} (${adviceFor(error)})`, {
    cause: error,
  });
}
