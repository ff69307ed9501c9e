// Control: a person's hand on an instance. Both deeds lock first and decide by what they find, in one transaction, so that
// an answer is true even when it races a completion.
// T1  Instance rows are locked by id, ascending, before anything is decided; buckets come last (docs/locking.md).
// T2  The end of a cancelled child reaches its parent's join in the same transaction.
// T3  The gate slot of a row that stops executing is credited in the same transaction.

import { InvariantError } from "../errors.js";
import { pauseAt } from "../pausePoint.js";
import type { Poker } from "./poker.js";
import type { Querier, Session } from "./session.js";
import { arrayText, readId, type TextRow } from "./text.js";

/** How often a family is locked again because it has grown meanwhile. */
const FAMILY_LOOKS_MAX = 50;

/**
 * cancelled: it has ended by this call. cancelling: it will end: its running step was asked, or its clean-up step runs.
 * already_done: it had ended before, and stays as it was.
 */
export type CancelAnswer = "cancelled" | "cancelling" | "already_done" | "not_found";

export type RetryResult =
  | { ok: true }
  | { ok: false; reason: "not_failed" | "not_found" }
  /** Its correlation key is occupied by the instance `id`. */
  | { ok: false; reason: "duplicate"; id: number };

export interface CancelSettings {
  reason: string;
  force: boolean;
  cascade: boolean;
}

export async function cancelInstance(
  id: number,
  settings: CancelSettings,
  { session, poker }: { session: Session; poker: Poker },
): Promise<CancelAnswer> {
  const { answer, payloads } = await session.transaction(async (querier) => {
    const ids = await lockFamily(querier, id, settings.cascade);
    await pauseAt("control.locked");
    if (ids === undefined) return { answer: "not_found" as const, payloads: [] };
    const rows = await querier.run("client/cancel_instances", [
      arrayText(ids),
      settings.reason,
      settings.force ? "yes" : "no",
    ]);
    const woken = await joinParents(querier, rows);
    await creditSlots(querier, rows);
    const payloads = [
      ...poker.payloadsOf([...rows.map((row) => row.ready), ...woken]),
      ...rows.filter((row) => row.asked === "yes").map((row) => poker.cancelPayload(readId(row.id))),
    ];
    await poker.sendWithin(querier, payloads);
    return { answer: answerOf(rows, id), payloads };
  });
  poker.sendAfter(payloads);
  return answer;
}

export async function retryInstance(
  id: number,
  { session, poker }: { session: Session; poker: Poker },
): Promise<RetryResult> {
  const { result, payloads } = await session.transaction<{
    result: RetryResult;
    payloads: readonly string[];
  }>(async (querier) => {
    const refuse = (result: RetryResult) => ({ result, payloads: [] });
    if ((await lockFamily(querier, id, false)) === undefined)
      return refuse({ ok: false, reason: "not_found" });
    await pauseAt("control.locked");
    const [found] = await querier.run("client/read_failed", [String(id)]);
    if (found === undefined) return refuse({ ok: false, reason: "not_found" });
    if (found.status !== "failed") return refuse({ ok: false, reason: "not_failed" });
    if (found.occupant !== null && found.occupant !== undefined)
      return refuse({ ok: false, reason: "duplicate", id: readId(found.occupant) });
    const rows = await querier.run("client/retry_instance", [String(id), found.joins ?? "no"]);
    if (rows.length !== 1)
      throw new InvariantError(`instance ${id} was locked as failed and could not be retried`);
    const payloads = poker.payloadsOf(rows.map((row) => row.queue));
    await poker.sendWithin(querier, payloads);
    return { result: { ok: true }, payloads };
  });
  poker.sendAfter(payloads);
  return result;
}

/**
 * Locks the instance, its parent and, with `cascade`, its descendants. Answers the ids to act on; undefined when there is no
 * such instance. Descendants that were created while the locks were waited for are locked in another round.
 */
async function lockFamily(querier: Querier, id: number, cascade: boolean): Promise<number[] | undefined> {
  let known = -1;
  for (let looks = 0; looks < FAMILY_LOOKS_MAX; looks++) {
    const rows = await querier.run("client/lock_family", [String(id), cascade ? "yes" : "no"]);
    const members = rows.filter((row) => row.kind !== "parent").map((row) => readId(row.id));
    if (!members.includes(id)) return undefined;
    if (!cascade || members.length === known) return members;
    known = members.length;
  }
  throw new InvariantError(`the descendants of instance ${id} grew while they were locked`);
}

/** Counts ended children off their parents. Answers the queues of parents that woke. */
async function joinParents(
  querier: Querier,
  rows: readonly TextRow[],
): Promise<(string | null | undefined)[]> {
  const rounds = countBy(rows, "parent", "round");
  if (rounds.length === 0) return [];
  const woken = await querier.run("client/join_parents", columnsOf(rounds));
  return woken.map((row) => row.queue);
}

async function creditSlots(querier: Querier, rows: readonly TextRow[]): Promise<void> {
  const slots = countBy(rows, "slot_key", "slot_shard");
  if (slots.length > 0) await querier.run("flusher/credit_slots", columnsOf(slots));
}

/** How many rows share each pair of values; rows without the first are left out. */
function countBy(
  rows: readonly TextRow[],
  first: string,
  second: string,
): { one: string; other: string; count: number }[] {
  const counted = new Map<string, { one: string; other: string; count: number }>();
  for (const row of rows) {
    const one = row[first];
    const other = row[second];
    if (one === null || one === undefined || other === null || other === undefined) continue;
    const key = `${other} ${one}`;
    const known = counted.get(key);
    if (known === undefined) counted.set(key, { one, other, count: 1 });
    else known.count++;
  }
  return [...counted.values()];
}

function columnsOf(counted: readonly { one: string; other: string; count: number }[]): string[] {
  return [
    arrayText(counted.map(({ one }) => one)),
    arrayText(counted.map(({ other }) => other)),
    arrayText(counted.map(({ count }) => count)),
  ];
}

function answerOf(rows: readonly TextRow[], id: number): CancelAnswer {
  const answer = rows.find((row) => Number(row.id) === id)?.answer;
  switch (answer) {
    case "cancelled":
    case "cancelling":
    case "already_done":
      return answer;
    default:
      throw new InvariantError(`cancel_instances answered ${answer}`);
  }
}
