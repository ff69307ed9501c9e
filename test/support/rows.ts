// Rows: factories that write instances and signals by plain SQL, in any state a test needs.

import type { Status } from "#core/instance.js";
import type { TestDatabase } from "./database.js";

/** Columns of an instance; what is absent takes the table's default. Instants may be given in milliseconds from now. */
export interface RowSpec {
  id?: number;
  fsm?: string;
  fsm_version?: number;
  step?: string;
  state?: unknown;
  attempt?: number;
  wake_reason?: "signal" | "timeout" | "children" | null;
  visit?: number;
  crashes?: number;
  reaps?: number;
  status?: Status;
  queue?: string;
  priority?: number;
  locked_by?: string | null;
  concurrency_key?: string | null;
  concurrency_shard?: number | null;
  rate_limit?: string | null;
  weight?: number;
  awaits?: readonly string[];
  await_seen?: readonly number[];
  parent_id?: number | null;
  parent_visit?: number | null;
  children_pending?: number;
  cancel_requested?: boolean;
  cancel_reason?: string | null;
  correlation_key?: string | null;
  correlation_scope?: readonly Status[];
  result?: unknown;
  last_error?: string | null;
  eligibleInMs?: number;
  leaseInMs?: number;
  deadlineInMs?: number;
  startedInMs?: number;
  updatedInMs?: number;
}

const INSTANTS: Record<string, string> = {
  eligibleInMs: "eligible_at",
  leaseInMs: "lease_expires_at",
  deadlineInMs: "await_deadline",
  startedInMs: "started_at",
  updatedInMs: "updated_at",
};
const JSON_COLUMNS = new Set(["state", "result"]);

/** Inserts one instance and returns its id. Default: runnable, fsm "plain", step "start". */
export async function insertRow(database: TestDatabase, spec: RowSpec = {}): Promise<number> {
  const columns: string[] = [];
  const places: string[] = [];
  const values: unknown[] = [];
  // What executes has an owner and a lease: the table insists.
  const claim = spec.status === "executing" ? { locked_by: "test/1", leaseInMs: 60_000 } : {};
  for (const [name, value] of Object.entries({ fsm: "plain", step: "start", ...claim, ...spec })) {
    const instant = INSTANTS[name];
    columns.push(instant ?? name);
    values.push(JSON_COLUMNS.has(name) ? JSON.stringify(value) : value);
    const place = `$${values.length}`;
    places.push(instant === undefined ? place : `clock_timestamp() + ${place} * interval '1 millisecond'`);
  }
  const { id } = await database.one<{ id: number }>(
    `INSERT INTO gen_durable (${columns.join(", ")}) VALUES (${places.join(", ")}) RETURNING id`,
    values,
  );
  return id;
}

/** Inserts `count` equal rows in one statement and returns their ids, ascending. For specs of plain values only. */
export async function insertRows(
  database: TestDatabase,
  count: number,
  spec: Pick<RowSpec, "fsm" | "step" | "queue" | "state" | "priority" | "eligibleInMs"> = {},
): Promise<number[]> {
  const rows = await database.query<{ id: number }>(
    `INSERT INTO gen_durable (fsm, step, queue, state, priority, eligible_at)
     SELECT $1, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 millisecond' FROM generate_series(1, $7) RETURNING id`,
    [
      spec.fsm ?? "plain",
      spec.step ?? "start",
      spec.queue ?? "default",
      JSON.stringify(spec.state ?? {}),
      spec.priority ?? 0,
      spec.eligibleInMs ?? 0,
      count,
    ],
  );
  return rows.map((row) => row.id).sort((a, b) => a - b);
}

/** Inserts a row as a claim leaves it: executing, owned by `claim`, under a lease of a minute. */
export function insertExecuting(database: TestDatabase, claim: string, spec: RowSpec = {}): Promise<number> {
  return insertRow(database, { status: "executing", locked_by: claim, leaseInMs: 60_000, ...spec });
}

/** Puts a signal into an inbox without waking anybody, and returns its id. */
export async function insertSignal(
  database: TestDatabase,
  targetId: number,
  name: string,
  payload: unknown = null,
  dedupKey: string | null = null,
): Promise<number> {
  const { id } = await database.one<{ id: number }>(
    "INSERT INTO signals (target_id, name, payload, dedup_key) VALUES ($1, $2, $3, $4) RETURNING id",
    [targetId, name, JSON.stringify(payload), dedupKey],
  );
  return id;
}

export type InstanceRow = Record<string, unknown> & { id: number; status: Status; step: string };

/** One instance as the table holds it. @throws when it is gone. */
export function readRow(database: TestDatabase, id: number): Promise<InstanceRow> {
  return database.one<InstanceRow>("SELECT * FROM gen_durable WHERE id = $1", [id]);
}

/** How many instances there are in each status that occurs. */
export async function countStatuses(database: TestDatabase): Promise<Partial<Record<Status, number>>> {
  const rows = await database.query<{ status: Status; n: number }>(
    "SELECT status, count(*) AS n FROM gen_durable GROUP BY status",
  );
  return Object.fromEntries(rows.map((row) => [row.status, row.n]));
}
