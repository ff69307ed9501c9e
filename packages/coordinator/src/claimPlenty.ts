// Claim with plenty: one statement that claims rows and debits their limits, where nothing was short at the last look. Plain,
// over a connection.
// CP1  It claims all that it finds or nothing, and never more than the counters hold: else it fails, and nothing is committed.
// CP2  Whatever keeps it from claiming is for a pick that looks first (claimLimited.ts) to find out.

import type { Runner } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import { pauseAt } from "#core/pausePoint.js";
import { CLAIM_BYTES_MAX, type Place } from "./claim.js";
import { type ClaimedRecord, loadRows } from "./claimedRows.js";
import type { LimitedClaim, LimitedRequest } from "./limitedClaim.js";

/** How claim_plenty.sql says that slots, tokens or counters are gone: a count that does not agree is divided by. */
const GONE_CODE = "22012";

interface PlentyRecord extends ClaimedRecord {
  eligible_at: string;
  seen: number;
  limited: number;
  cut: boolean;
  plenty: boolean;
  concurrency_key: string | null;
}

/** Whether slots or tokens that were seen a moment ago are gone. */
export function isGone(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === GONE_CODE;
}

/** Claims up to `rowsMax` rows; null: not everything that they need is there in plenty, and nothing was claimed. */
export async function claimPlenty(
  connection: Runner,
  statements: Statements,
  request: LimitedRequest,
): Promise<LimitedClaim | null> {
  const { places } = request;
  const answer = await connection.run<PlentyRecord>(statements.get("picker/claim_plenty"), [
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
  ]);
  const [first] = answer;
  if (first === undefined || !first.plenty) return null;
  await pauseAt("pick.taken");
  // Where nothing was found, the one row says only that.
  const records = answer.filter((record) => record.id !== null);
  return {
    rows: await loadRows(connection, statements, records, request),
    keys: records.map((record) => record.concurrency_key),
    reached: reachedPlaces(records),
    seen: first.seen,
    isCut: first.cut,
    isLimited: first.limited > 0,
    plenty: "had",
    denials: [],
    busyKeys: [],
    moreKeys: [],
    unknown: [],
  };
}

/** Rows come in pick order, so the last row of a priority is the furthest. */
function reachedPlaces(records: readonly PlentyRecord[]): Place[] {
  const reached = new Map<number, Place>();
  for (const { priority, eligible_at, id } of records) {
    reached.set(priority, { priority, eligibleAt: eligible_at, id });
  }
  return [...reached.values()];
}
