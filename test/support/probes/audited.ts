// Audited: what the probes' steps write to the test, over a connection that the engine knows nothing of.
// The tables are made by audit.ts; without GEN_DURABLE_TEST_AUDIT_URL nothing is written.

import { setTimeout as sleep } from "node:timers/promises";
import { threadId } from "node:worker_threads";
import pg from "pg";

/** What is used of a step's context, whatever its machine. */
interface AuditedContext {
  readonly id: number;
  readonly fsm: string;
  readonly step: string;
  readonly attempt: number;
}

const url = process.env.GEN_DURABLE_TEST_AUDIT_URL;
let pool: pg.Pool | undefined;

function openPool(): pg.Pool {
  if (url === undefined) throw new Error("GEN_DURABLE_TEST_AUDIT_URL is not set");
  if (pool === undefined) {
    pool = new pg.Pool({ connectionString: url, max: 4, application_name: "test probe" });
    pool.on("error", () => undefined);
  }
  return pool;
}

/** Runs a step's body between two entries of the audit: its beginning and its end, with a note. */
export async function audited<T>(
  ctx: AuditedContext,
  body: () => T | Promise<T>,
  note: unknown = null,
): Promise<T> {
  if (url === undefined || url === "") return body();
  const { rows } = await openPool().query<{ n: string }>(
    `INSERT INTO public.test_audit (instance, fsm, step, attempt, pid, thread, note) VALUES ($1, $2, $3, $4, $5, $6, $7)
     RETURNING n`,
    [ctx.id, ctx.fsm, ctx.step, ctx.attempt, process.pid, threadId, JSON.stringify(note)],
  );
  try {
    return await body();
  } finally {
    await openPool().query("UPDATE public.test_audit SET left_at = clock_timestamp() WHERE n = $1", [
      rows[0]?.n,
    ]);
  }
}

/** Waits until the test has put this name into `public.test_control` (audit.ts: `letGo`), or the step is aborted. */
export async function untilLetGo(name: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { rowCount } = await openPool().query("SELECT 1 FROM public.test_control WHERE name = $1", [name]);
    if (rowCount !== 0) return;
    await sleep(10);
  }
}
