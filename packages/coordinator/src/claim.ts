// Claim: takes runnable rows of one queue for this node, with what their steps need. Plain, over a connection: the
// pickers and the testing helpers run the same code.
// CL1  One statement claims; two more at most load inboxes and children, only for rows that have some.
// CL2  When it throws, the caller cannot know whether rows were claimed: it releases the claim by its name.

import type { Runner } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import { InvariantError } from "#core/errors.js";
import type { WakeReason } from "#core/instance.js";
import { pauseAt } from "#core/pausePoint.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import { type ClaimedRecord, loadRows } from "./claimedRows.js";

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

/** A row of claim_runnable.sql. */
interface RunnableRow extends Record<string, unknown> {
  id: number;
  fsm: string;
  version: number;
  step: string;
  state: string;
  visit: number;
  priority: number;
  parent_id: number | null;
  parent_visit: number | null;
  /** JSON of `Rare`; null: nothing of it is set. */
  more: string | null;
}

/** What most rows have nothing of. */
type Rare = [
  attempt: number,
  crashes: number,
  reaps: number,
  awaits: string[],
  awaitSeen: number[],
  wakeReason: WakeReason | null,
  cancelReason: string | null,
];

const NOTHING_RARE: Rare = [0, 0, 0, [], [], null, null];

/** The first row's `more`: what is to say of the claim as a whole. Lists of ids are texts, "2,1". */
interface Facts {
  seen: number;
  limited: number;
  order: string | null;
  inboxes: string | null;
  children: string | null;
  reached: Place[] | null;
}

/** Claims up to `rowsMax` due rows. Empty when nothing is due: that took one statement. */
export async function claimRunnable(
  connection: Runner,
  statements: Statements,
  request: ClaimRequest,
): Promise<Claim> {
  const places = request.places;
  const [first, ...found] = await connection.run<RunnableRow>(statements.get("picker/claim_runnable"), [
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
  if (typeof first?.more !== "string") throw new InvariantError("a claim says what it found");
  // claim_runnable.sql writes it.
  const facts = JSON.parse(first.more) as Facts;
  return {
    rows: await loadRows(connection, statements, inOrder(found, facts), request),
    reached: facts.reached ?? [],
    limited: facts.limited,
    isShort: facts.seen < request.rowsMax,
  };
}

function inOrder(found: readonly RunnableRow[], facts: Facts): ClaimedRecord[] {
  const rows = new Map(found.map((row) => [row.id, row]));
  const inboxes = new Set(idsOf(facts.inboxes));
  const children = new Set(idsOf(facts.children));
  return idsOf(facts.order).map((id) => {
    const row = rows.get(id);
    if (row === undefined) throw new InvariantError(`${id} was chosen and not claimed`);
    return toRecord(row, { inbox: inboxes.has(id), children: children.has(id) });
  });
}

function toRecord(row: RunnableRow, has: { inbox: boolean; children: boolean }): ClaimedRecord {
  // claim_runnable.sql writes it.
  const rare = row.more === null ? NOTHING_RARE : (JSON.parse(row.more) as Rare);
  // Told one by one: spreading a thousand rows a pick cost more than all else that is done with them.
  return {
    id: row.id,
    fsm: row.fsm,
    version: row.version,
    step: row.step,
    state: row.state,
    visit: row.visit,
    priority: row.priority,
    parent_id: row.parent_id,
    parent_visit: row.parent_visit,
    attempt: rare[0],
    crashes: rare[1],
    reaps: rare[2],
    awaits: rare[3],
    await_seen: rare[4],
    wake_reason: rare[5],
    cancel_reason: rare[6],
    // A wake that is younger than the claim's snapshot brought a signal or children that it cannot see.
    has_inbox: has.inbox || rare[5] === "signal",
    has_children: has.children || rare[5] === "children",
  };
}

function idsOf(list: string | null): number[] {
  return list === null ? [] : list.split(",").map(Number);
}
