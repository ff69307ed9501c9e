// Session: where the client's statements run: a pool of its own, a pool it was given, or a caller's transaction.
// Owns:    the pool that it made; a given pool is used and never closed.
// C1  Nothing connects before the first call.
// C2  Every pool and every checked-out connection has an error listener: a lost connection rejects a call, it never
//     ends the process.
// C3  No global setting of `pg` is read or changed: values travel as text both ways (text.ts).
// C4  A statement of ours that loses a race (a deadlock, a key taken meanwhile) runs again; the caller's transaction is
//     the caller's, its errors pass through untouched.
// C5  On a session that is not ours alone (a given pool, a transaction pooler) nothing is set. Where the role's defaults are not
//     what the engine relies on, each statement is a transaction that states so.
// C6  Nothing waits for ever: an answer that does not come in time is a lost connection.

import type pg from "pg";
import { adviceFor, isPoolerCollision, isTlsRefusal, messageWithAdvice } from "../database/advice.js";
import { beginText } from "../database/connection.js";
import { classifyFailure, isPoolBusy } from "../database/failure.js";
import { Servers } from "../database/servers.js";
import { quoteIdentifier, type Statement, Statements } from "../database/statements.js";
import { TransientError, UsageError } from "../errors.js";
import type { DatabaseSettings } from "../settings.js";
import type { Located } from "./locate.js";
import { openPool } from "./pool.js";
import type { Param, TextRow } from "./text.js";

/** How often a statement of ours runs again after a deadlock, a serialization failure or a lock timeout. */
const CONTENTION_RETRIES_MAX = 6;

/** How long one of our transactions waits for a row that somebody else's transaction holds. */
const LOCK_TIMEOUT_MS = 10_000;

/** C6. Longer than any statement of ours takes, and than most transactions that it may have to wait for. */
const ANSWER_TIMEOUT_MS = 60_000;

/** A transaction of the caller's: anything that runs one statement and answers its rows. */
export interface Tx {
  // biome-ignore lint/suspicious/noExplicitAny: every driver types values and rows its own way; we send text and read text.
  query(text: string, values: any[]): Promise<{ rows: any[] }>;
}

/** What the client needs of a `pg` pool. */
export interface PgPool {
  query(query: PgQuery): Promise<{ rows: unknown[] }>;
  connect(): Promise<PgPoolClient>;
  on?(event: "acquire", listener: (client: PgPoolClient) => void): unknown;
  off?(event: "acquire", listener: (client: PgPoolClient) => void): unknown;
}

export interface PgPoolClient {
  query(query: PgQuery): Promise<{ rows: unknown[] }>;
  release(destroy?: boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
}

export interface PgQuery {
  text: string;
  name?: string;
  values?: unknown[];
  // biome-ignore lint/suspicious/noExplicitAny: `pg` types parsers as a family of overloads; ours passes text on.
  types?: any;
  /** How long `pg` waits for the answer. */
  query_timeout?: number;
}

/** Runs statements: autocommitted ones, or those of one transaction. */
export interface Querier {
  run(path: string, values: readonly Param[], options?: { answerTimeoutMs?: number }): Promise<TextRow[]>;
}

export interface SessionOptions {
  schema: string;
  /** Absent: as the database that is found says, else true for a pool of our own and false for a given one. */
  prepare: boolean | undefined;
  /** A pool of the caller's, or where to connect to; the latter is asked for at the first call. */
  pool: PgPool | undefined;
  locate: () => Promise<Located>;
}

interface Opened {
  pool: PgPool;
  prepare: boolean;
  /** C5: `SET LOCAL ...`, or "". */
  stated: string;
  /** Ends what is ours. */
  end(): Promise<void>;
}

export class Session implements Querier {
  readonly schema: string;
  readonly #statements: Statements;
  readonly #options: SessionOptions;
  #opening: Promise<Opened> | undefined;
  #doubt: () => void = () => undefined;
  #closed = false;

  constructor(options: SessionOptions) {
    this.schema = options.schema;
    this.#options = options;
    this.#statements = new Statements(options.schema);
  }

  /** Runs one statement and commits it. Repeats it after a deadlock or a serialization failure. */
  async run(
    path: string,
    values: readonly Param[],
    options: { answerTimeoutMs?: number } = {},
  ): Promise<TextRow[]> {
    return this.#contended(async () => {
      const opened = await this.#open();
      const query = this.#query(this.#statements.get(path), values, { ...opened, ...options });
      if (opened.stated === "") return rowsOf(await opened.pool.query(query));
      return this.#transact(opened, async (client) => rowsOf(await client.query(query)));
    });
  }

  /** The caller's transaction as a place to run statements. */
  within(tx: Tx): Querier {
    if (typeof tx !== "object" || tx === null || typeof tx.query !== "function") {
      throw new UsageError(
        "INVALID_TX",
        "tx: expected an object with query(text, values): Promise<{ rows }>, for example a connected pg client",
        { path: "tx" },
      );
    }
    return {
      run: async (path, values) => {
        const { text } = this.#statements.get(path);
        // Everything else stays the driver's own: whoever owns the transaction repeats it by the driver's codes.
        const answer = await tx.query(text, [...values]).catch((error: unknown) => {
          throw isMissing(error) ? notMigrated(error, this.schema) : error;
        });
        return rowsOf(answer);
      },
    };
  }

  /** Runs `body` in one READ COMMITTED transaction of ours; repeats the whole after a deadlock. */
  async transaction<T>(body: (querier: Querier) => Promise<T>): Promise<T> {
    return this.#contended(async () => {
      const opened = await this.#open();
      return this.#transact(
        opened,
        (client) =>
          body({
            run: async (path, values) =>
              rowsOf(await client.query(this.#query(this.#statements.get(path), values, opened))),
          }),
        LOCK_TIMEOUT_MS,
      );
    });
  }

  async #transact<T>(
    { pool, stated }: Opened,
    body: (client: PgPoolClient) => Promise<T>,
    lockTimeoutMs?: number,
  ): Promise<T> {
    const client = await pool.connect();
    let lost = false;
    const onError = (): void => {
      lost = true;
    };
    client.on("error", onError);
    // What is stated for its own sake (the lock timeout) comes after it, and wins.
    const begin = beginText(true, lockTimeoutMs).replace(
      /^BEGIN[^;]*/,
      stated === "" ? "$&" : `$&; ${stated}`,
    );
    try {
      await client.query(command(begin));
      const value = await body(client);
      await client.query(command("COMMIT"));
      return value;
    } catch (error) {
      lost ||= classifyFailure(error) === "connection";
      if (!lost)
        await client.query(command("ROLLBACK")).catch(() => {
          lost = true;
        });
      throw error;
    } finally {
      client.off("error", onError);
      client.release(lost);
    }
  }

  /** Ends the pool of our own; a given one stays open. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const opened = await this.#opening?.catch(() => undefined);
    await opened?.end();
  }

  #query(
    statement: Statement,
    values: readonly Param[],
    { prepare, answerTimeoutMs = ANSWER_TIMEOUT_MS }: { prepare: boolean; answerTimeoutMs?: number },
  ): PgQuery {
    const query = {
      text: statement.text,
      values: [...values],
      types: TEXT_TYPES,
      query_timeout: answerTimeoutMs,
    };
    return prepare ? { ...query, name: statement.name } : query;
  }

  async #open(): Promise<Opened> {
    if (this.#closed) throw new UsageError("CLIENT_CLOSED", "the client is closed: create another one");
    this.#opening ??=
      this.#options.pool === undefined ? this.#openOwn() : this.#openGiven(this.#options.pool);
    try {
      return await this.#opening;
    } catch (error) {
      this.#opening = undefined;
      throw error;
    }
  }

  async #openOwn(): Promise<Opened> {
    const located = await this.#options.locate();
    const prepare = this.#options.prepare ?? located.prepare ?? true;
    const settings: DatabaseSettings = {
      url: located.url,
      listenUrl: undefined,
      schema: this.schema,
      prepare,
      ssl: located.ssl,
    };
    const servers = Servers.of(settings);
    this.#doubt = () => servers.doubt();
    const pool = await openPool(settings);
    hearErrors(pool);
    const end = (): Promise<void> => endWithin(pool, FAREWELL_MS);
    try {
      return { pool, prepare, stated: prepare ? "" : await this.#findDefaults(pool), end };
    } catch (error) {
      void end();
      throw error;
    }
  }

  async #openGiven(pool: PgPool): Promise<Opened> {
    const unhear = hearErrors(pool);
    try {
      return {
        pool,
        prepare: this.#options.prepare ?? false,
        stated: await this.#findDefaults(pool),
        end: async () => unhear(),
      };
    } catch (error) {
      unhear();
      throw error;
    }
  }

  /** C5. */
  async #findDefaults(pool: PgPool): Promise<string> {
    const statement = this.#statements.get("node/find_defaults");
    const [facts] = rowsOf(await pool.query(this.#query(statement, [], { prepare: false })));
    return facts?.stated ?? "";
  }

  async #contended<T>(attempt: () => Promise<T>): Promise<T> {
    for (let retries = 0; ; retries++) {
      try {
        return await attempt();
      } catch (error) {
        if (classifyFailure(error) === "connection") this.#doubt();
        if (!isLostRace(error) || retries >= CONTENTION_RETRIES_MAX) throw explain(error, this.schema);
        // Those that collided do not collide again in step.
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 10 * 2 ** retries));
      }
    }
  }
}

/** A server that is gone does not answer a farewell. */
const FAREWELL_MS = 5_000;

const POOL_BUSY =
  "no connection of the pool became free in time: make fewer calls at once (insertMany, or insertAsync with an insertBatcher, for many rows), or give the client a larger pool";

function command(text: string): PgQuery {
  return { text, query_timeout: ANSWER_TIMEOUT_MS };
}

async function endWithin(pool: pg.Pool, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
    timer.unref();
  });
  await Promise.race([pool.end(), bound]);
  clearTimeout(timer);
}

const TEXT_TYPES = {
  getTypeParser: () => (value: unknown) => (Buffer.isBuffer(value) ? value.toString("utf8") : value),
};

/** A deadlock, a serialization failure, a lock timeout; or a correlation key that was taken while the statement ran. */
/**
 * C2. A pool takes its own listener off a connection before it hands it on, and a promise brings it to us a moment later: an end that
 * arrives in one piece with the answer before it would be heard by nobody. So each connection has a listener that stays.
 */
function hearErrors(pool: PgPool): () => void {
  const heard = new WeakSet<PgPoolClient>();
  const hear = (client: PgPoolClient): void => {
    if (heard.has(client)) return;
    heard.add(client);
    client.on("error", () => undefined);
  };
  pool.on?.("acquire", hear);
  return () => pool.off?.("acquire", hear);
}

function isLostRace(error: unknown): boolean {
  if (classifyFailure(error) === "contention") return true;
  const { code, constraint } = error as { code?: unknown; constraint?: unknown };
  return code === "23505" && constraint === "gen_durable_correlation";
}

function rowsOf(answer: { rows: unknown[] }): TextRow[] {
  if (typeof answer !== "object" || answer === null || !Array.isArray(answer.rows)) {
    throw new UsageError("INVALID_TX", "tx.query: expected an answer of the form { rows: [...] }", {
      path: "tx.query",
    });
  }
  // Every column of a client statement is cast to text.
  return answer.rows as TextRow[];
}

/** A mapper's own error may have the driver's as its cause, and that one another. */
const CAUSES_MAX = 5;

/** Whether a table of ours, or the schema itself, is not there. */
function isMissing(error: unknown): boolean {
  let it = error as { code?: unknown; cause?: unknown } | null | undefined;
  for (let depth = 0; depth < CAUSES_MAX && typeof it === "object" && it !== null; depth++) {
    if (it.code === "42P01" || it.code === "3F000") return true;
    it = it.cause as typeof it; // whatever it is, the loop looks
  }
  return false;
}

function notMigrated(error: unknown, schema: string): UsageError {
  return new UsageError(
    "NOT_MIGRATED",
    `the schema ${quoteIdentifier(schema)} is not there: run \`gen-durable migrate\`, or start a node once`,
    { schema, cause: error },
  );
}

/** Makes a driver's error one of ours where the engine knows what it means; leaves others as they are. */
function explain(error: unknown, schema: string): unknown {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string" && code.startsWith("ERR_GEN_DURABLE_")) return error;
  if (isMissing(error)) return notMigrated(error, schema);
  if (isPoolerCollision(error)) return new UsageError("POOLER", adviceFor(error) ?? "", { cause: error });
  if (isPoolBusy(error)) return new TransientError("POOL_BUSY", POOL_BUSY, { cause: error });
  const message = messageWithAdvice(error);
  if (code === "42501") return new UsageError("NOT_ALLOWED", message, { cause: error });
  if (isTlsRefusal(error)) return new TransientError("TLS", message, { cause: error });
  switch (classifyFailure(error)) {
    case "connection":
      return new TransientError("DATABASE_UNREACHABLE", `the database did not answer: ${message}`, {
        cause: error,
      });
    case "contention":
      return new TransientError("CONTENDED", `other transactions kept the rows busy: ${message}`, {
        cause: error,
      });
    default:
      return error;
  }
}
