// Session: the connection of a test, as the engine's plain modules use one. Everything runs on the test's own client,
// so that it sees, and rolls back, what the test does.

import type pg from "pg";
import type { Row, Value } from "#core/database/connection.js";
import { engineTypes } from "#core/database/parsers.js";
import type { Statement } from "#core/database/statements.js";
import { CALLERS_TRANSACTION, ownTransaction, type Session, type TransactionTexts } from "#flusher/env.js";

/** What the helpers need of a connection: one `pg` client (a pool would spread a transaction over several). */
export type TestClient = Pick<pg.ClientBase, "query">;

export interface TestSession extends Session {
  /** How a flush brackets itself: a savepoint inside the test's transaction, else a transaction of its own. */
  transaction(): Promise<TransactionTexts>;
}

const NO_TRANSACTION = "25P01";

/** Puts the engine's statements on the test's client; values are parsed the engine's way, whatever the client's parsers. */
export function openSession(client: TestClient): TestSession {
  const command = async (text: string): Promise<void> => {
    await client.query(text);
  };
  return {
    async run<R extends Row = Row>(statement: Statement, values: readonly Value[] = []): Promise<R[]> {
      const { rows } = await client.query({ text: statement.text, values: [...values], types: engineTypes });
      return rows as R[];
    },
    command,
    async transaction() {
      try {
        await command(CALLERS_TRANSACTION.begin);
        await command(CALLERS_TRANSACTION.commit);
        return CALLERS_TRANSACTION;
      } catch (error) {
        if ((error as { code?: unknown }).code !== NO_TRANSACTION) throw error;
        return ownTransaction(false);
      }
    },
  };
}
