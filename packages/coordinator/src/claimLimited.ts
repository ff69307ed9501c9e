// Claim where limits can apply: one short transaction locks the candidates, admits over the locked rows, and claims the
// admitted ones with their final shard. Plain, over a session: the pickers and the testing helpers run the same code.
// CM1  Nothing provisional is committed: a denied row is never written.
// CM2  Instance rows are locked first, then counters; neither is waited for. What has to be waited for (an entry of a unique
//      index that another pick is just making, a counter that is debited last) is waited for under a short lock timeout.
// CM3  A lost race rolls the whole pick back, and it begins anew on what the winner has committed.
// CM4  Where limits had plenty at the last look, one statement is tried first (claimPlenty.ts).

import { setTimeout as sleep } from "node:timers/promises";
import { beginText } from "#core/database/connection.js";
import { classifyFailure, isUniqueViolation } from "#core/database/failure.js";
import type { Statements } from "#core/database/statements.js";
import { pauseAt } from "#core/pausePoint.js";
import type { Session, TransactionTexts } from "#flusher/env.js";
import { CLAIM_BYTES_MAX, type Place } from "./claim.js";
import { type ClaimedRecord, loadRows } from "./claimedRows.js";
import { claimPlenty, isGone } from "./claimPlenty.js";
import type { LimitedClaim, LimitedRequest, UnknownRate } from "./limitedClaim.js";
import { type Admitted, type Limiter, SlotsGone } from "./limiter/limiter.js";

/** CM2: below deadlock_timeout, so that two picks in each other's way are parted before the server calls it a deadlock. */
const LOCK_TIMEOUT_MS = 100;
/** CM3: races that one pick loses before it gives up until the next one. */
const RACES_MAX = 4;
const RACE_DELAY_MS = 2;

/** The database refuses to claim this row because of its values; it stood alone. */
export class RowRefused extends Error {
  readonly id: number;

  constructor(id: number, cause: unknown) {
    super("a row cannot be claimed", { cause });
    this.name = "RowRefused";
    this.id = id;
  }
}

export interface LimitedEnv {
  statements: Statements;
  limiter: Limiter;
  transaction: TransactionTexts;
  /** A race was lost and the pick begins anew. */
  onContended?: () => void;
}

interface FactsRecord {
  seen: number;
  cut: boolean;
  limited: number;
  busy: string[] | null;
  followed: string[] | null;
  more: string[] | null;
  unknown: string | null;
  reached: string | null;
  rows: string | null;
  [column: string]: unknown;
}

/** A locked row, as lock_candidates.sql tells it. */
type LockedRow = [
  id: number,
  concurrencyKey: string | null,
  isGated: boolean,
  rateLimit: string | null,
  weight: number,
  hasInbox: boolean,
  hasChildren: boolean,
];

/**
 * The transaction of a pick, on a connection of the picker's own. The joins are nested loops, so that the statements write in
 * the order in which their rows are given; with the joins settled there is nothing to plan anew for each batch.
 */
export function pickTransaction(keepsSettings: boolean): TransactionTexts {
  return {
    begin: `${beginText(!keepsSettings, LOCK_TIMEOUT_MS)}; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL plan_cache_mode = force_generic_plan`,
    commit: "COMMIT",
    rollback: "ROLLBACK",
  };
}

/** Claims up to `rowsMax` rows that their limits admit. @throws what Postgres says when it is no race, or one race too many */
export async function claimLimited(
  session: Session,
  env: LimitedEnv,
  request: LimitedRequest,
): Promise<LimitedClaim> {
  const claim = await claimAtOnce(session, env, request);
  if (claim !== null) return claim;
  const looked = await claimLooking(session, env, request);
  return request.isPlenty === true ? { ...looked, plenty: "missed" } : looked;
}

/** CM4. Null: it was not tried, or nothing was claimed. */
async function claimAtOnce(
  session: Session,
  env: LimitedEnv,
  request: LimitedRequest,
): Promise<LimitedClaim | null> {
  if (request.isPlenty !== true || !env.limiter.isBesideRows) return null;
  try {
    return await claimPlenty(session, env.statements, request);
  } catch (error) {
    // A row that cannot be claimed is found, and left out, by a pick that looks at it.
    if (!isRace(error) && !isRefusal(error)) throw error;
    if (isRace(error)) env.onContended?.();
    return null;
  }
}

async function claimLooking(
  session: Session,
  env: LimitedEnv,
  request: LimitedRequest,
): Promise<LimitedClaim> {
  for (let races = 0; ; races++) {
    try {
      return await pick(session, env, request);
    } catch (error) {
      if (classifyFailure(error) === "connection") throw error;
      await session.command(env.transaction.rollback).catch(() => undefined);
      if (!isRace(error) || races >= RACES_MAX) throw error;
      env.onContended?.();
      await sleep(RACE_DELAY_MS * 2 ** races * Math.random());
    }
  }
}

/** Another pick was first: with a row of the key, or with the counter; or the two were in each other's way. */
export function isRace(error: unknown): boolean {
  return (
    error instanceof SlotsGone ||
    isGone(error) ||
    classifyFailure(error) === "contention" ||
    isUniqueViolation(error, "gen_durable_concurrency_active") ||
    isUniqueViolation(error, "gen_durable_buckets_pkey")
  );
}

function isRefusal(error: unknown): boolean {
  const failure = classifyFailure(error);
  return (failure === "data" || failure === "constraint") && !isRace(error);
}

async function pick(session: Session, env: LimitedEnv, request: LimitedRequest): Promise<LimitedClaim> {
  const { statements, transaction } = env;
  await session.command(transaction.begin);
  const facts = await lockCandidates(session, statements, request);
  await pauseAt("pick.locked");
  const locked = parse<LockedRow>(facts?.rows);
  const { admitted, denials, owed, isPlenty } = await env.limiter.admit(
    session,
    locked.map(([id, key, isGated, rate, weight]) => ({ id, gate: isGated ? key : null, rate, weight })),
    { mayOwe: true },
  );
  const records = await claimAdmitted(session, statements, request, { locked, admitted }).catch((error) => {
    const [alone] = admitted.length === 1 ? admitted : [];
    throw alone !== undefined && isRefusal(error) ? new RowRefused(alone.id, error) : error;
  });
  await env.limiter.debit(session, owed);
  await pauseAt("pick.admitted");
  await session.command(transaction.commit);
  return {
    rows: await loadRows(session, statements, records, request),
    keys: records.map((record) => record.concurrency_key as string | null),
    reached: parse<Place>(facts?.reached),
    seen: facts?.seen ?? 0,
    isCut: facts?.cut ?? false,
    isLimited: (facts?.limited ?? 0) > 0,
    plenty: isPlenty && !hasExclusive(locked) ? "left" : "short",
    denials,
    busyKeys: [...(facts?.busy ?? []), ...followedKeys(facts?.followed ?? [], records)],
    moreKeys: facts?.more ?? [],
    unknown: parse<UnknownRate>(facts?.unknown),
  };
}

async function lockCandidates(
  session: Session,
  statements: Statements,
  request: LimitedRequest,
): Promise<FactsRecord | undefined> {
  const { places, known, excluded } = request;
  const [facts] = await session.run<FactsRecord>(statements.get("picker/lock_candidates"), [
    request.queue,
    request.rowsMax,
    request.windowRows,
    known.names,
    known.versions,
    places.map((place) => place.priority),
    places.map((place) => place.eligibleAt),
    places.map((place) => place.id),
    request.asOf ?? null,
    request.bytesMax ?? CLAIM_BYTES_MAX,
    excluded.keys,
    excluded.rates,
    request.probes,
    request.without ?? [],
  ]);
  return facts;
}

/** Claims in the order of the keys (CM2), and returns the rows in pick order. */
async function claimAdmitted(
  session: Session,
  statements: Statements,
  request: LimitedRequest,
  { locked, admitted }: { locked: readonly LockedRow[]; admitted: readonly Admitted[] },
): Promise<ClaimedRecord[]> {
  if (admitted.length === 0) return [];
  const rows = new Map(locked.map((row, turn) => [row[0], { row, turn }]));
  const keyOf = ({ id, shard }: Admitted): string => (shard === null ? (rows.get(id)?.row[1] ?? "") : "");
  const ordered = admitted
    .map((row) => ({ ...row, key: keyOf(row) }))
    .sort((a, b) => compare(a.key, b.key) || a.id - b.id);
  const records = await session.run<ClaimedRecord>(statements.get("picker/claim_admitted"), [
    ordered.map(({ id }) => id),
    ordered.map(({ shard }) => shard),
    request.claim,
    request.leaseTtlMs,
  ]);
  for (const record of records) {
    const [, , , , , hasInbox, hasChildren] = rows.get(record.id)?.row ?? [];
    record.has_inbox = hasInbox ?? false;
    record.has_children = hasChildren ?? false;
  }
  return records.sort((a, b) => (rows.get(a.id)?.turn ?? 0) - (rows.get(b.id)?.turn ?? 0));
}

/** Whether a key is among them that admits one row at a time. */
function hasExclusive(locked: readonly LockedRow[]): boolean {
  return locked.some(([, key, isGated]) => key !== null && !isGated);
}

/** Of the keys behind whose heads others wait: those whose heads were claimed. */
function followedKeys(followed: readonly string[], records: readonly ClaimedRecord[]): string[] {
  const claimed = new Set(records.map((record) => record.concurrency_key));
  return followed.filter((key) => claimed.has(key));
}

function parse<T>(text: string | null | undefined): T[] {
  return text === null || text === undefined ? [] : (JSON.parse(text) as T[]);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
