// Claimed rows: what a claim returns of its rows, and what is made of that for the threads that run their steps. Plain, over a
// connection; every way to claim ends here.

import type { Runner } from "#core/database/connection.js";
import { type Inputs, loadChildren, loadInboxes } from "#core/database/inputs.js";
import type { Statements } from "#core/database/statements.js";
import type { WakeReason } from "#core/instance.js";
import type { ClaimedRow } from "#core/protocol/row.js";

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
  parent_id: number | null;
  parent_visit: number | null;
  has_inbox: boolean;
  has_children: boolean;
}

/** The claimed rows with their inboxes and children, where they have some. */
export async function loadRows(
  connection: Runner,
  statements: Statements,
  records: readonly ClaimedRecord[],
  request: { claim: string; queue: string },
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
  request: { claim: string; queue: string },
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
    // As toVisit tells it; spreading it would cost more than all else that is done with a row.
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
