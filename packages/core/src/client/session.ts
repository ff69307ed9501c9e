// Session: where the client's statements run: a pool of its own, a pool it was given, or a caller's transaction.
// Owns:    the pool that it made; a given pool is used and never closed.
// C1  Nothing connects before the first call.
// C2  Every pool and every checked-out connection has an error listener: a lost connection rejects a call, it never
//     ends the process.
// C3  No global setting of `pg` is read or changed: values travel as text both ways (text.ts).
// C4  A statement of ours that loses a race (a deadlock, a key taken meanwhile) runs again; the caller's transaction is
//     the caller's, its errors pass through untouched.

import pg from "pg";
import { beginText, clientConfig } from "../database/connection.js";
import { classifyFailure } from "../database/failure.js";
import { quoteIdentifier, type Statement, Statements } from "../database/statements.js";
import { TransientError, UsageError } from "../errors.js";
import type { Param, TextRow } from "./text.js";

/** Connections of a pool of our own. A web process calls many at once, and a hundred such processes share one server. */
export const POOL_CONNECTIONS_MAX = 10;

/** How often a statement of ours runs again after a deadlock, a serialization failure or a lock timeout. */
const CONTENTION_RETRIES_MAX = 6;

/** How long one of our transactions waits for a row that somebody else's transaction holds. */
const LOCK_TIMEOUT_MS = 10_000;

/** A transaction of the caller's: anything that runs one statement and answers its rows. */
export interface Tx {
  // biome-ignore lint/suspicious/noExplicitAny: every driver types values and rows its own way; we send text and read text.
  query(text: string, values: any[]): Promise<{ rows: any[] }>;
}

/** What the client needs of a `pg` pool. */
export interface PgPool {
  query(query: PgQuery): Promise<{ rows: unknown[] }>;
  connect(): Promise<PgPoolClient>;
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
}

/** Runs statements: autocommitted ones, or those of one transaction. */
export interface Querier {
  run(path: string, values: readonly Param[]): Promise<TextRow[]>;
}

export interface SessionOptions {
  schema: string;
  prepare: boolean;
  /** A pool of the caller's, or where to connect to; the latter is asked for at the first call. */
  pool: PgPool | undefined;
  locate: () => Promise<{ url: string | undefined }>;
}

export class Session implements Querier {
  readonly schema: string;
  readonly #statements: Statements;
  readonly #options: SessionOptions;
  #ownPool: Promise<pg.Pool> | undefined;
  #closed = false;

  constructor(options: SessionOptions) {
    this.schema = options.schema;
    this.#options = options;
    this.#statements = new Statements(options.schema);
  }

  /** Runs one statement and commits it. Repeats it after a deadlock or a serialization failure. */
  async run(path: string, values: readonly Param[]): Promise<TextRow[]> {
    return this.#contended(async () => {
      const pool = await this.#pool();
      return rowsOf(await pool.query(this.#query(this.#statements.get(path), values)));
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
      run: async (path, values) => rowsOf(await tx.query(this.#statements.get(path).text, [...values])),
    };
  }

  /** Runs `body` in one READ COMMITTED transaction of ours; repeats the whole after a deadlock. */
  async transaction<T>(body: (querier: Querier) => Promise<T>): Promise<T> {
    return this.#contended(async () => {
      const pool = await this.#pool();
      const client = await pool.connect();
      let lost = false;
      const onError = (): void => {
        lost = true;
      };
      client.on("error", onError);
      try {
        await client.query({ text: beginText(true, LOCK_TIMEOUT_MS) });
        const value = await body({
          run: async (path, values) =>
            rowsOf(await client.query(this.#query(this.#statements.get(path), values))),
        });
        await client.query({ text: "COMMIT" });
        return value;
      } catch (error) {
        if (!lost)
          await client.query({ text: "ROLLBACK" }).catch(() => {
            lost = true;
          });
        throw error;
      } finally {
        client.off("error", onError);
        client.release(lost);
      }
    });
  }

  /** Ends the pool of our own; a given one stays open. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const pool = await this.#ownPool?.catch(() => undefined);
    await pool?.end();
  }

  #query(statement: Statement, values: readonly Param[]): PgQuery {
    const query = { text: statement.text, values: [...values], types: TEXT_TYPES };
    return this.#options.prepare ? { ...query, name: statement.name } : query;
  }

  async #pool(): Promise<PgPool> {
    if (this.#closed) throw new UsageError("CLIENT_CLOSED", "the client is closed: create another one");
    if (this.#options.pool !== undefined) return this.#options.pool;
    this.#ownPool ??= this.#openPool();
    try {
      return await this.#ownPool;
    } catch (error) {
      this.#ownPool = undefined;
      throw error;
    }
  }

  async #openPool(): Promise<pg.Pool> {
    const { url } = await this.#options.locate();
    const { schema, prepare } = this.#options;
    const settings = { url, listenUrl: undefined, schema, prepare };
    const stateSession = this.#statements.get("node/state_session").text;
    const pool = new pg.Pool({
      ...clientConfig(settings, "client"),
      max: POOL_CONNECTIONS_MAX,
      // A script that forgets close() still ends.
      allowExitOnIdle: true,
      ...(prepare
        ? {
            onConnect: async (client: { query(text: string): Promise<unknown> }) => {
              await client.query(stateSession);
            },
          }
        : {}),
    });
    pool.on("error", () => undefined);
    return pool;
  }

  async #contended<T>(attempt: () => Promise<T>): Promise<T> {
    for (let retries = 0; ; retries++) {
      try {
        return await attempt();
      } catch (error) {
        if (!isLostRace(error) || retries >= CONTENTION_RETRIES_MAX) throw explain(error, this.schema);
        // Those that collided do not collide again in step.
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 10 * 2 ** retries));
      }
    }
  }
}

const TEXT_TYPES = {
  getTypeParser: () => (value: unknown) => (Buffer.isBuffer(value) ? value.toString("utf8") : value),
};

/** A deadlock, a serialization failure, a lock timeout; or a correlation key that was taken while the statement ran. */
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

/** Makes a driver's error one of ours where the engine knows what it means; leaves others as they are. */
function explain(error: unknown, schema: string): unknown {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string" && code.startsWith("ERR_GEN_DURABLE_")) return error;
  if (code === "42P01" || code === "3F000") {
    return new UsageError(
      "NOT_MIGRATED",
      `the schema ${quoteIdentifier(schema)} is not there: run \`gen-durable migrate\`, or start a node once`,
      { schema, cause: error },
    );
  }
  const message =
    error instanceof Error || typeof (error as Error)?.message === "string"
      ? (error as Error).message
      : String(error);
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
