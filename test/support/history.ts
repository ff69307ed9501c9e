// History: a trigger that writes every version of every instance into a table, with its transaction and clock.

import type { Status } from "#core/instance.js";
import { isLegalMove } from "#core/lifecycle.js";
import type { TestDatabase } from "./database.js";

export interface HistoryEntry {
  /** Order of the change. */
  n: number;
  id: number;
  xid: string;
  at: Date;
  op: "INSERT" | "UPDATE" | "DELETE";
  status: Status | null;
  step: string | null;
  attempt: number | null;
  visit: number | null;
  crashes: number | null;
  locked_by: string | null;
  awaits: string[] | null;
  children_pending: number | null;
  state: unknown;
}

/** Installs the trigger. Changes from now on are recorded, in the transaction that makes them. */
export async function recordHistory(database: TestDatabase): Promise<void> {
  await database.query(`
    CREATE TABLE test_history (
      n bigint GENERATED ALWAYS AS IDENTITY, id bigint, xid text DEFAULT pg_current_xact_id()::text,
      at timestamptz DEFAULT clock_timestamp(), op text, status text, step text, attempt int, visit int, crashes int,
      locked_by text, awaits text[], children_pending int, state jsonb);
    CREATE FUNCTION test_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = gen_durable AS $$
    BEGIN
      IF TG_OP = 'DELETE' THEN
        INSERT INTO test_history (id, op) VALUES (OLD.id, TG_OP);
      ELSE
        INSERT INTO test_history (id, op, status, step, attempt, visit, crashes, locked_by, awaits, children_pending, state)
        VALUES (NEW.id, TG_OP, NEW.status, NEW.step, NEW.attempt, NEW.visit, NEW.crashes, NEW.locked_by, NEW.awaits,
                NEW.children_pending, NEW.state);
      END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER test_history AFTER INSERT OR UPDATE OR DELETE ON gen_durable
      FOR EACH ROW EXECUTE FUNCTION test_history();
  `);
}

/** What happened to one instance, or to all, in order. */
export function readHistory(database: TestDatabase, id?: number): Promise<HistoryEntry[]> {
  return database.query<HistoryEntry & Record<string, unknown>>(
    "SELECT * FROM test_history WHERE $1::bigint IS NULL OR id = $1 ORDER BY n",
    [id ?? null],
  );
}

/** The recorded moves that the lifecycle does not allow, as texts: none in a sound history. */
export function illegalMoves(history: readonly HistoryEntry[]): string[] {
  const last = new Map<number, Status>();
  const illegal: string[] = [];
  for (const { id, op, status, n } of history) {
    if (op === "DELETE" || status === null) continue;
    const from = last.get(id);
    if (from !== undefined && !isLegalMove(from, status))
      illegal.push(`${id}: ${from} to ${status} (change ${n})`);
    last.set(id, status);
  }
  return illegal;
}
