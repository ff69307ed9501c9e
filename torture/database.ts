// Database: the harness's own connections to the run's server; opened again whenever a fault has cut them.

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

const AGAIN_MS = 100;

const INT8 = 20;
const types = {
  getTypeParser: (oid: number, format?: "text" | "binary") =>
    oid === INT8 ? Number : pg.types.getTypeParser(oid, format as "text"),
} as pg.CustomTypesConfig;

export class Database {
  readonly pool: pg.Pool;

  constructor(url: string) {
    this.pool = new pg.Pool({
      connectionString: url,
      max: 4,
      types,
      application_name: "torture",
      // Slow commits are a fault of the engine's, not of ours.
      options: "-c synchronous_commit=local",
      connectionTimeoutMillis: 5_000,
    });
    this.pool.on("error", () => undefined);
  }

  /** Runs one statement; again when its connection was lost. */
  query<R extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return this.#insist(async () => (await this.pool.query<R>(text, [...values])).rows);
  }

  /** Runs `body` over one connection; from its beginning again when that was lost. */
  session<T>(body: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return this.#insist(async () => {
      const client = await this.pool.connect();
      // A connection that is lost between two statements.
      const onError = (): void => undefined;
      client.on("error", onError);
      try {
        return await body(client);
      } finally {
        client.off("error", onError);
        client.release();
      }
    });
  }

  async #insist<T>(body: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await body();
      } catch (error) {
        if (!isLost(error)) throw error;
        await sleep(AGAIN_MS);
      }
    }
  }

  async close(): Promise<void> {
    await this.pool.end();
  }
}

function isLost(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return (
    (typeof code === "string" && /^(08|57P|ECONN|EPIPE)/.test(code)) ||
    /terminated|timeout|closed|connection error/i.test(String(message))
  );
}
