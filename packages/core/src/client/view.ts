// View: instances as a person reads them. Reads only; what it shows may be old by the time it is read.
// V1  A page costs a bounded number of rows looked at, whatever the filter: a page may be short, and `next` says where to
//     go on. Only `next: null` means that there is no more.

import { checkInteger, checkOptions } from "../definition/options.js";
import { InvariantError, UsageError } from "../errors.js";
import { STATUSES, type Status, type WakeReason } from "../instance.js";
import { checkName, describe } from "../name.js";
import type { Querier } from "./session.js";
import { checkId } from "./signal.js";
import { arrayText, type Param, readId } from "./text.js";

/** Rows of one page. */
export const PAGE_ROWS_MAX = 10_000;
const PAGE_ROWS_DEFAULT = 100;

/** Rows that one statement looks at, and statements of one page: a million rows in about a second. */
const STRETCH_ROWS = 50_000;
const STRETCHES_MAX = 20;

export interface InstanceSummary {
  id: number;
  fsm: string;
  version: number;
  step: string;
  status: Status;
  queue: string;
  priority: number;
  attempt: number;
  visit: number;
  crashes: number;
  /** Why it failed, or what its last error was. */
  error: string | null;
  eligibleAt: Date;
  correlationKey: string | null;
  concurrencyKey: string | null;
  /** The signals that it waits for, or was woken by last. */
  awaits: string[];
  awaitDeadline: Date | null;
  childrenPending: number;
  parentId: number | null;
  cancelRequested: boolean;
  cancelReason: string | null;
  /** The claim, `<node>/<pick>`, while it executes. */
  lockedBy: string | null;
  insertedAt: Date;
  updatedAt: Date;
}

export interface InstanceDetails extends InstanceSummary {
  state: unknown;
  result: unknown;
  correlationScope: Status[];
  rateLimit: string | null;
  weight: number;
  wokenBy: WakeReason | null;
  parentVisit: number | null;
  reaps: number;
  leaseExpiresAt: Date | null;
  /** Unread signals, oldest first; at most 1,000. */
  inbox: { id: number; name: string; payload: unknown; insertedAt: Date }[];
}

export interface ListFilter {
  status?: Status | readonly Status[] | undefined;
  fsm?: string | undefined;
  queue?: string | undefined;
  step?: string | undefined;
  /** The instance that occupies the key now. */
  correlationKey?: string | undefined;
  parentId?: number | undefined;
}

export interface ListPage {
  /** How many at most; absent: 100. */
  limit?: number | undefined;
  /** `next` of the page before; absent: the newest. */
  after?: number | null | undefined;
}

export interface InstancePage {
  /** Newest first. */
  instances: InstanceSummary[];
  /** Pass it as `after` for the next page; null: there is no more. */
  next: number | null;
}

/** Everything about one instance; undefined when there is none. */
export async function readInstance(querier: Querier, id: number): Promise<InstanceDetails | undefined> {
  const [row] = await querier.run("client/read_instance", [String(id)]);
  if (row === undefined) return undefined;
  const { leaseExpiresAtMs, ...details } = parse<
    Omit<InstanceDetails, keyof InstanceSummary | "leaseExpiresAt"> & { leaseExpiresAtMs: number | null }
  >(row.details);
  const inbox = parse<{ id: number; name: string; payload: unknown; insertedAtMs: number }[]>(row.inbox);
  return {
    ...summaryOf(row.summary),
    ...details,
    state: parse(row.state),
    result: row.result === null ? null : parse(row.result),
    leaseExpiresAt: dateOf(leaseExpiresAtMs),
    inbox: inbox.map(({ insertedAtMs, ...signal }) => ({ ...signal, insertedAt: new Date(insertedAtMs) })),
  };
}

/** One page of instances, newest first. @throws UsageError INVALID_OPTION */
export async function listInstances(
  querier: Querier,
  filter: ListFilter,
  page: ListPage,
  bounds = { stretchRows: STRETCH_ROWS, stretchesMax: STRETCHES_MAX },
): Promise<InstancePage> {
  const { limit, after } = checkPage(page);
  const filters = checkFilter(filter);
  const source = sourceOf(filter);
  const instances: InstanceSummary[] = [];
  let below = after;
  for (let stretches = 0; stretches < bounds.stretchesMax; stretches++) {
    const wanted = limit - instances.length;
    const rows = await querier.run(`client/${source}`, [
      below,
      String(wanted),
      String(bounds.stretchRows),
      ...filters,
    ]);
    for (const row of rows) instances.push(summaryOf(row.summary));
    if (rows.length === wanted) return { instances, next: instances.at(-1)?.id ?? null };
    if (source !== "list_instances") return { instances, next: null };
    const [end] = await querier.run("client/find_stretch", [below, String(bounds.stretchRows)]);
    if (end === undefined) return { instances, next: null };
    below = String(readId(end.id));
  }
  return { instances, next: Number(below) };
}

/** The statement whose index serves the filter; the table's own order where none does. */
function sourceOf(filter: ListFilter): string {
  if (filter.correlationKey !== undefined) return "list_occupant";
  if (filter.parentId !== undefined) return "list_children";
  const statuses = filter.status === undefined ? [] : [filter.status].flat();
  return statuses.length === 1 && statuses[0] === "executing" ? "list_executing" : "list_instances";
}

const FILTERS = ["status", "fsm", "queue", "step", "correlationKey", "parentId"] as const;
const CODE = "INVALID_OPTION";

function checkFilter(filter: unknown): Param[] {
  const given = checkOptions(filter, FILTERS, { code: CODE, path: "filter" });
  const text = (key: string): Param =>
    given[key] === undefined ? null : checkName(given[key], `filter.${key}`);
  return [
    given.status === undefined ? null : arrayText([given.status].flat().map(statusOf)),
    text("fsm"),
    text("queue"),
    text("step"),
    text("correlationKey"),
    given.parentId === undefined ? null : String(checkId(given.parentId, "filter.parentId")),
  ];
}

function statusOf(value: unknown): Status {
  const status = STATUSES.find((known) => known === value);
  if (status !== undefined) return status;
  throw new UsageError(
    CODE,
    `filter.status: expected one of ${STATUSES.join(", ")}, found ${describe(value)}`,
    {
      path: "filter.status",
    },
  );
}

function checkPage(page: unknown): { limit: number; after: Param } {
  const { limit, after } = checkOptions(page, ["limit", "after"], { code: CODE, path: "page" });
  return {
    limit:
      limit === undefined
        ? PAGE_ROWS_DEFAULT
        : checkInteger(limit, { code: CODE, path: "page.limit" }, { max: PAGE_ROWS_MAX }),
    after: after === undefined || after === null ? null : String(checkId(after, "page.after")),
  };
}

interface SummaryJson {
  eligibleAtMs: number;
  awaitDeadlineMs: number | null;
  insertedAtMs: number;
  updatedAtMs: number;
}

function summaryOf(text: string | null | undefined): InstanceSummary {
  const { eligibleAtMs, awaitDeadlineMs, insertedAtMs, updatedAtMs, ...rest } = parse<
    SummaryJson & Omit<InstanceSummary, "eligibleAt" | "awaitDeadline" | "insertedAt" | "updatedAt">
  >(text);
  readId(String(rest.id));
  return {
    ...rest,
    eligibleAt: new Date(eligibleAtMs),
    awaitDeadline: dateOf(awaitDeadlineMs),
    insertedAt: new Date(insertedAtMs),
    updatedAt: new Date(updatedAtMs),
  };
}

function dateOf(atMs: number | null): Date | null {
  return atMs === null ? null : new Date(atMs);
}

/** JSON that a statement of ours built. */
function parse<T>(text: string | null | undefined): T {
  if (text === null || text === undefined) throw new InvariantError("the database answered no JSON");
  return JSON.parse(text) as T; // the statement says what is in it
}
