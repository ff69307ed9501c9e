// Claim: takes runnable rows of one queue for this node, with what their steps need. Plain, over a connection: the
// pickers and the testing helpers run the same code.
// CL1  One statement claims; two more at most load inboxes and children, only for rows that have some.
// CL2  When it throws, the caller cannot know whether rows were claimed: it releases the claim by its name.

import type { Runner } from "#core/database/connection.js";
import { type Inputs, loadChildren, loadInboxes } from "#core/database/inputs.js";
import type { Statements } from "#core/database/statements.js";
import type { WakeReason } from "#core/instance.js";
import { pauseAt } from "#core/pausePoint.js";
import type { ClaimedRow } from "#core/protocol/row.js";

/** Rows of one claim: past this, a claim's own cost a row no longer falls, and it holds its locks for tens of ms. */
export const CLAIM_ROWS_MAX = 1_000;
/** What one claim may bring into memory; a single larger row still travels alone. */
export const CLAIM_BYTES_MAX = 16 * 1024 * 1024;
/** Where a scan of one priority stopped. `eligibleAt` is the database's own text, since a Date would lose microseconds. */
export interface Place {
  priority: number;
  eligibleAt: string;
  id: number;
}

/** The definitions that this process can run, as two parallel lists. */
export interface KnownDefinitions {
  names: readonly string[];
  versions: readonly number[];
}

export interface ClaimRequest {
  queue: string;
  /** `<node>/<pick>`, never used before. */
  claim: string;
  rowsMax: number;
  leaseTtlMs: number;
  known: KnownDefinitions;
  /** Where to resume, in priorities that have a place; the others are looked at from their starts. */
  places: readonly Place[];
  /** That much before the places, milliseconds. */
  marginMs?: number;
  /** Which rows are due; null: by the database's clock. */
  asOf?: Date | null;
  bytesMax?: number;
  /** Ids to leave out. */
  without?: readonly number[];
}

export interface Claim {
  rows: ClaimedRow[];
  /** How many rows with limits the scan met and left: they are claimed by claimLimited.ts. */
  limited: number;
  /** For each priority that gave a row: how far the scan got. */
  reached: Place[];
  /** Whether there were fewer rows than asked for: whoever asks again now finds nothing. */
  isShort: boolean;
}

/** What each commit may change of a row that stays under its claim, and its step needs. */
export interface VisitRecord {
  id: number;
  step: string;
  state: string;
  attempt: number;
  visit: number;
  crashes: number;
  reaps: number;
  awaits: string[];
  await_seen: number[];
  wake_reason: WakeReason | null;
  cancel_reason: string | null;
  [column: string]: unknown;
}

export interface ClaimedRecord extends VisitRecord {
  fsm: string;
  version: number;
  priority: number;
  eligible_at: string;
  parent_id: number | null;
  parent_visit: number | null;
  has_inbox: boolean;
  has_children: boolean;
  seen: number;
  limited: number;
}

/** Claims up to `rowsMax` due rows. Empty when nothing is due: that took one statement. */
export async function claimRunnable(
  connection: Runner,
  statements: Statements,
  request: ClaimRequest,
): Promise<Claim> {
  const places = request.places;
  const answer = await connection.run<ClaimedRecord>(statements.get("picker/claim_runnable"), [
    request.queue,
    request.rowsMax,
    request.claim,
    request.leaseTtlMs,
    request.known.names,
    request.known.versions,
    places.map((place) => place.priority),
    places.map((place) => place.eligibleAt),
    places.map((place) => place.id),
    request.asOf ?? null,
    request.bytesMax ?? CLAIM_BYTES_MAX,
    request.without ?? [],
    request.marginMs ?? 0,
  ]);
  await pauseAt("pick.claimed");
  // Where nothing but limited rows was found, the one row says only that.
  const records = answer.filter((record) => record.id !== null);
  return {
    rows: await loadRows(connection, statements, records, request),
    reached: reachedPlaces(records),
    limited: answer[0]?.limited ?? 0,
    isShort: (answer[0]?.seen ?? 0) < request.rowsMax,
  };
}

/** The claimed rows with their inboxes and children, where they have some. */
export async function loadRows(
  connection: Runner,
  statements: Statements,
  records: readonly ClaimedRecord[],
  request: Pick<ClaimRequest, "claim" | "queue">,
): Promise<ClaimedRow[]> {
  const inboxes = await loadInboxes(
    connection,
    statements,
    records.filter((record) => record.has_inbox).map(({ id }) => id),
  );
  const children = await loadChildren(
    connection,
    statements,
    records.filter((record) => record.has_children).map(({ id }) => id),
  );
  return records.map((record) => toRow(record, request, inboxes, children));
}

function toRow(
  record: ClaimedRecord,
  request: Pick<ClaimRequest, "claim" | "queue">,
  inboxes: Inputs,
  children: Inputs,
): ClaimedRow {
  return {
    id: record.id,
    claim: request.claim,
    // The HeldTable gives the row its seat; without threads there is none.
    seat: -1,
    generation: 0,
    fsm: record.fsm,
    version: record.version,
    queue: request.queue,
    priority: record.priority,
    parentId: record.parent_id,
    parentVisit: record.parent_visit,
    verdict: null,
    ...toVisit(record, inboxes, children),
  };
}

/** The part of a claimed row that its commits change. */
export function toVisit(record: VisitRecord, inboxes: Inputs, children: Inputs) {
  return {
    step: record.step,
    state: record.state,
    attempt: record.attempt,
    visit: record.visit,
    crashes: record.crashes,
    reaps: record.reaps,
    awaits: record.awaits,
    awaitSeen: record.await_seen,
    wokenBy: record.wake_reason,
    inbox: inboxes.get(record.id) ?? null,
    children: children.get(record.id) ?? null,
    cancelReason: record.cancel_reason,
  } satisfies Partial<ClaimedRow>;
}

/** Rows come in pick order, so the last row of a priority is the furthest. */
export function reachedPlaces(records: readonly ClaimedRecord[]): Place[] {
  const reached = new Map<number, Place>();
  for (const { priority, eligible_at, id } of records) {
    reached.set(priority, { priority, eligibleAt: eligible_at, id });
  }
  return [...reached.values()];
}
