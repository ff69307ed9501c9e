// Measure: every hot statement at several batch sizes, as its own session plans it and under forced generic plans, against bounds that
// are linear in the batch.

import type pg from "pg";
import { Statements } from "#core/database/statements.js";
import type { TestDatabase } from "../support/database.js";
import { fileOf, HOT, type Sender } from "./hot.js";
import { type Reading, readPlan } from "./plan.js";

/** What no batch may need more of: so many rows and pages each, and so many besides. */
const ROWS_A_ROW = 12;
const ROWS_BESIDES = 300;
/** An update writes up to ten indexes of four levels. */
const PAGES_A_ROW = 120;
const PAGES_BESIDES = 1_500;
/** A statement that takes longer has no plan that anybody would want. */
const TIMEOUT_MS = 10_000;
/** A plan for all values asks for no value: the ids that it is made with need not be there. */
const PLANNED_ROWS = 1_000;
/** Tables of a few rows, which may be read whole. */
const SMALL_TABLES = ["fsms", "nodes", "gen_durable_bucket_configs"];

const statements = new Statements("gen_durable");

const SESSIONS: Record<Sender, string[]> = {
  picker: ["node/state_session", "picker/state_session"],
  keeper: ["node/state_session", "node/pin_plans"],
  flusher: ["node/state_session", "flusher/state_session"],
  // A caller's pool: nobody states anything.
  client: [],
};

export interface MeasureOptions {
  rows: number;
  batches: readonly number[];
  /** For the message: what the planner knows. */
  knowledge: string;
}

/** Returns what broke a bound, a line each. */
export async function measurePlans(database: TestDatabase, options: MeasureOptions): Promise<string[]> {
  const broken: string[] = [];
  for (const [name, { sender }] of Object.entries(HOT)) {
    for (const mode of ["as sent", "generic"] as const) {
      const session = await openSession(database, sender, mode);
      await session.query(`PREPARE hot AS ${statements.get(fileOf(name)).text}`);
      for (const batch of options.batches) {
        const complaint = await readPlan(session, executeOf(name, batch, options.rows)).then(
          (reading) => judge(name, batch, reading),
          (error: unknown) => String(error),
        );
        if (complaint !== undefined)
          broken.push(`${name}, batch ${batch}, ${mode}, ${options.knowledge}: ${complaint}`);
      }
      await session.end();
    }
  }
  return broken;
}

/**
 * Plans every statement of the engine's own sessions for all values, and keeps the plans: what they become while the table grows is
 * measured by the function that is returned. A caller's pool keeps none.
 */
export async function keepPlans(
  database: TestDatabase,
): Promise<(options: MeasureOptions) => Promise<string[]>> {
  const kept: { name: string; session: pg.Client; as: string }[] = [];
  const sessions = new Map<Sender, pg.Client>();
  for (const [index, [name, { sender }]] of Object.entries(HOT).entries()) {
    if (sender === "client") continue;
    const session = sessions.get(sender) ?? (await openSession(database, sender, "generic"));
    sessions.set(sender, session);
    const as = `hot_${index}`;
    await session.query(`PREPARE ${as} AS ${statements.get(fileOf(name)).text}`);
    await session.query(`EXPLAIN ${executeOf(name, 1, PLANNED_ROWS, as)}`);
    kept.push({ name, session, as });
  }
  return async ({ rows, batches, knowledge }) => {
    const broken: string[] = [];
    for (const { name, session, as } of kept) {
      for (const batch of batches) {
        const complaint = await readPlan(session, executeOf(name, batch, rows, as)).then(
          (reading) => judge(name, batch, reading),
          (error: unknown) => String(error),
        );
        if (complaint !== undefined) broken.push(`${name}, batch ${batch}, ${knowledge}: ${complaint}`);
      }
    }
    for (const session of sessions.values()) await session.end();
    return broken;
  };
}

async function openSession(
  database: TestDatabase,
  sender: Sender,
  mode: "as sent" | "generic",
): Promise<pg.Client> {
  const session = await database.session();
  for (const file of SESSIONS[sender])
    await session.query(statements.get(file).text, file === "flusher/state_session" ? ["1000"] : []);
  await session.query(`SET statement_timeout = ${TIMEOUT_MS}`);
  if (mode === "generic") await session.query("SET plan_cache_mode = force_generic_plan");
  return session;
}

function executeOf(name: string, batch: number, rows: number, as = "hot"): string {
  const params = HOT[name]?.params(batch, rows) ?? [];
  const values = params.map((value) => (value === null ? "NULL" : `'${value.replaceAll("'", "''")}'`));
  return `EXECUTE ${as}${values.length === 0 ? "" : ` (${values.join(", ")})`}`;
}

function judge(name: string, batch: number, reading: Reading): string | undefined {
  const window = HOT[name]?.windowRows ?? 0;
  const rowsMax = ROWS_A_ROW * (batch + window) + ROWS_BESIDES;
  const pagesMax = PAGES_A_ROW * (batch + window) + PAGES_BESIDES;
  const scanned = reading.scanned.filter((table) => !SMALL_TABLES.includes(table));
  if (scanned.length > 0) return `reads the whole of ${scanned.join(", ")}`;
  if (reading.rows > rowsMax)
    return `meets ${reading.rows} rows, at most ${rowsMax}: ${reading.scans.join("; ")}`;
  if (reading.pages > pagesMax)
    return `reads ${reading.pages} pages, at most ${pagesMax}: ${reading.scans.join("; ")}`;
  return undefined;
}
