// Audit: a table that the probes' steps write to over a connection of their own, at entry and at exit.
// The steps' side is probes/audited.ts; this is the test's.

import type { TestDatabase } from "./database.js";

export interface AuditEntry {
  n: number;
  instance: number;
  fsm: string;
  step: string;
  attempt: number;
  pid: number;
  thread: number;
  entered_at: Date;
  /** Null when the step never came to its end. */
  left_at: Date | null;
  /** What the step wished to note. */
  note: unknown;
}

/** Creates the table. Probes started with `auditEnvironment` write to it from then on. */
export async function createAudit(database: TestDatabase): Promise<void> {
  await database.query(`
    CREATE TABLE IF NOT EXISTS public.test_audit (
      n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, instance bigint, fsm text, step text, attempt int, pid int, thread int,
      entered_at timestamptz DEFAULT clock_timestamp(), left_at timestamptz, note jsonb);
    CREATE INDEX IF NOT EXISTS test_audit_instance ON public.test_audit (instance);
    CREATE TABLE IF NOT EXISTS public.test_control (name text PRIMARY KEY);
  `);
}

/** The environment in which a process's probes write their audit to this database. */
export function auditEnvironment(database: TestDatabase): Record<string, string> {
  return { GEN_DURABLE_TEST_AUDIT_URL: database.url };
}

/** The audit of one instance, or of all, in order of entry. */
export function readAudit(database: TestDatabase, instance?: number): Promise<AuditEntry[]> {
  return database.query<AuditEntry & Record<string, unknown>>(
    "SELECT * FROM public.test_audit WHERE $1::bigint IS NULL OR instance = $1 ORDER BY n",
    [instance ?? null],
  );
}

/** Lets the `hold` probes of this name go on. */
export async function letGo(database: TestDatabase, name = "hold"): Promise<void> {
  await database.query("INSERT INTO public.test_control VALUES ($1) ON CONFLICT DO NOTHING", [name]);
}
