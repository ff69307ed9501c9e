// Watch done: notes when the end of each `stamped` instance is visible to another session: a trigger notifies, hence after the commit.

import type { TestDatabase } from "../test/support/database.js";

export interface Seen {
  /** When the step began, by the machine's clock. */
  startedAtMs: number;
  /** When the listener heard of the commit. */
  atMs: number;
}

export interface Watcher {
  /** By instance id. */
  seen: ReadonlyMap<number, Seen>;
  close(): Promise<void>;
}

export async function watchDone(database: TestDatabase): Promise<Watcher> {
  await database.query(`
    CREATE FUNCTION bench_done() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_notify('bench_done', json_build_object('id', NEW.id, 'result', NEW.result)::text); RETURN NULL; END $$;
    CREATE TRIGGER bench_done AFTER UPDATE ON gen_durable FOR EACH ROW
      WHEN (NEW.status = 'done' AND NEW.fsm = 'stamped') EXECUTE FUNCTION bench_done();
  `);
  const session = await database.session();
  const seen = new Map<number, Seen>();
  session.on("notification", ({ payload }) => {
    const { id, result } = JSON.parse(payload ?? "") as { id: number; result: { startedAtMs: number } };
    seen.set(id, { startedAtMs: result.startedAtMs, atMs: nowMs() });
  });
  await session.query("LISTEN bench_done");
  return {
    seen,
    close: async () => {
      await session.end();
      await database.query("DROP TRIGGER bench_done ON gen_durable; DROP FUNCTION bench_done()");
    },
  };
}

/** Milliseconds since 1970 with fractions, as the machines of fsms/bench.ts stamp. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
