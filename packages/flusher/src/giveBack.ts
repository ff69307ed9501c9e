// Give back: rows that will not be run here go back to runnable, under the same guard as an outcome.
// G1  A row that had begun gets an attempt and a crash; one that had not goes back untouched.
// G2  Other nodes hear of it in the same transaction, and gate slots are credited in it.
// G3  Nothing is waited for: what is locked by somebody else is answered as deferred.
// G4  A row that is told of twice, by the flush that carried it on and by whoever saw its thread end, goes back once, with one
//     slot; both are answered alike.

import { classifyFailure } from "#core/database/failure.js";
import { pauseAt } from "#core/pausePoint.js";
import type { LostRow, QueueDue } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { plainArray, textArray } from "./arrays.js";
import { earliestDues, type FlushEnv, type FlushEvent, type Session } from "./env.js";
import { flush } from "./flush.js";
import { releaseIdentities } from "./identities.js";
import { creditSlots, type FreedSlot, poke } from "./riders.js";

export interface GiveBackResult {
  /** No longer held: returned, or refused by the guard. */
  returned: LostRow[];
  deferred: LostRow[];
  pokes: QueueDue[];
  events: FlushEvent[];
}

interface LostLockRow extends Record<string, unknown> {
  n: number;
  held: boolean;
  queue: string;
  gate: string | null;
  shard: number | null;
  enters: boolean;
  cancelled: boolean;
  fsm: string;
  version: number;
  step: string;
  visit: number;
  attempt: number;
  parent_id: number | null;
  parent_visit: number | null;
}

/** Returns rows. @throws when the connection is lost; the same call may simply be made again, the guard refuses twice. */
export async function giveBack(
  session: Session,
  rows: readonly LostRow[],
  env: FlushEnv,
): Promise<GiveBackResult> {
  const total: GiveBackResult = { returned: [], deferred: [], pokes: [], events: [] };
  const copiesOf = groupCopies(rows);
  const work: { rows: readonly LostRow[]; releaseIdentities: boolean }[] = [
    { rows: [...copiesOf.keys()], releaseIdentities: false },
  ];
  for (let attempt = work.pop(); attempt !== undefined; attempt = work.pop()) {
    if (attempt.rows.length === 0) continue;
    try {
      const cancelled = await returnRows(session, attempt.rows, attempt.releaseIdentities, env, total);
      await endCancelled(session, cancelled, env, total);
    } catch (error) {
      const failure = classifyFailure(error);
      if (failure === "connection" || failure === "other") throw error;
      await session.command(env.transaction.rollback).catch(() => undefined);
      if (attempt.rows.length > 1) {
        work.push(...attempt.rows.map((row) => ({ rows: [row], releaseIdentities: false })));
      } else if (failure === "contention" || attempt.releaseIdentities) {
        total.deferred.push(...attempt.rows);
      } else {
        // Its correlation key was taken between look and write.
        work.push({ ...attempt, releaseIdentities: true });
      }
    }
  }
  total.pokes = earliestDues(total.pokes);
  total.returned = total.returned.flatMap((row) => copiesOf.get(row) ?? [row]);
  total.deferred = total.deferred.flatMap((row) => copiesOf.get(row) ?? [row]);
  return total;
}

/** G4: the first mention of each row, with all of them. */
function groupCopies(rows: readonly LostRow[]): Map<LostRow, LostRow[]> {
  const byClaim = new Map<string, LostRow[]>();
  for (const row of rows) {
    const name = `${row.id} ${row.claim}`;
    const known = byClaim.get(name);
    if (known === undefined) byClaim.set(name, [row]);
    else known.push(row);
  }
  return new Map(
    [...byClaim.values()].flatMap((copies) => copies.slice(0, 1).map((first) => [first, copies])),
  );
}

type Cancelled = { lost: LostRow; row: LostLockRow };

/** One transaction. Returns the rows whose cancel was requested: their end is the cancellation. */
async function returnRows(
  session: Session,
  rows: readonly LostRow[],
  whoeverHasIt: boolean,
  env: FlushEnv,
  total: GiveBackResult,
): Promise<Cancelled[]> {
  await session.command(env.transaction.begin);
  const found = await session.run<LostLockRow>(env.statements.get("flusher/lock_lost"), [
    plainArray(rows.map((row) => row.id)),
    textArray(rows.map((row) => row.claim)),
  ]);
  await pauseAt("return.locked");
  const there = await findUnlocked(session, rows, found, env);
  const returned: LostRow[] = [];
  const deferred: LostRow[] = [];
  const cancelled: Cancelled[] = [];
  const held: Cancelled[] = [];
  const byPlace = new Map(found.map((row) => [row.n - 1, row]));
  rows.forEach((lost, i) => {
    const row = byPlace.get(i);
    if (row === undefined) (there.has(lost.id) ? deferred : returned).push(lost);
    else if (row.held && row.cancelled) cancelled.push({ lost, row });
    else {
      returned.push(lost);
      if (row.held) held.push({ lost, row });
    }
  });
  const entering = held
    .filter(({ row }) => row.enters)
    .map(({ lost }) => ({ id: lost.id, status: "runnable", names: null, seen: null }));
  const events = await releaseIdentities(session, entering, whoeverHasIt, env);
  const dues = earliestDues(held.map(({ row }) => ({ queue: row.queue, dueInMs: 0 })));
  let owed: QueueDue[] = [];
  if (held.length > 0) {
    await session.run(env.statements.get("flusher/return_lost"), [
      plainArray(held.map(({ lost }) => lost.id)),
      textArray(held.map(({ lost }) => lost.claim)),
      plainArray(held.map(({ lost }) => lost.begun)),
      env.asOf,
    ]);
    if (env.poke !== null) owed = await poke(session, dues, env.poke, env);
    events.push(
      ...(await creditSlots(
        session,
        held.flatMap(({ row }) => slotOf(row)),
        env,
      )),
    );
  }
  await session.command(env.transaction.commit);
  env.poke?.gate.owe(owed);
  total.returned.push(...returned);
  total.deferred.push(...deferred);
  // Of refused rows too: an earlier try that got no answer may have returned them.
  total.pokes.push(...found.map((row) => ({ queue: row.queue, dueInMs: 0 })));
  total.events.push(...events);
  return cancelled;
}

async function findUnlocked(
  session: Session,
  rows: readonly LostRow[],
  found: readonly LostLockRow[],
  env: FlushEnv,
): Promise<ReadonlySet<number>> {
  if (found.length === rows.length) return new Set();
  const unlocked = await session.run<{ id: number }>(env.statements.get("flusher/find_unlocked"), [
    plainArray(rows.map((row) => row.id)),
  ]);
  return new Set(unlocked.map((row) => Number(row.id)));
}

function slotOf({ gate, shard }: LostLockRow): FreedSlot[] {
  return gate === null || shard === null ? [] : [{ key: gate, shard }];
}

/** Ends rows whose cancel was requested through the flush, which makes the cancellation of any outcome. */
async function endCancelled(
  session: Session,
  cancelled: readonly Cancelled[],
  env: FlushEnv,
  total: GiveBackResult,
): Promise<void> {
  if (cancelled.length === 0) return;
  const outcomes = new Map(cancelled.map((one) => [endOf(one), one.lost]));
  const result = await flush(session, [...outcomes.keys()], env);
  const lostOf = (outcome: WireOutcome): LostRow[] => {
    const lost = outcomes.get(outcome);
    return lost === undefined ? [] : [lost];
  };
  total.returned.push(...[...result.committed, ...result.stale].flatMap(lostOf));
  total.deferred.push(...result.deferred.flatMap(({ outcome }) => lostOf(outcome)));
  total.pokes.push(...result.pokes);
  total.events.push(...result.events);
}

function endOf({ lost, row }: Cancelled): WireOutcome {
  return {
    id: lost.id,
    claim: lost.claim,
    seat: lost.seat,
    generation: lost.generation,
    fsm: row.fsm,
    version: row.version,
    step: row.step,
    visit: row.visit,
    attempt: row.attempt,
    queue: row.queue,
    parentId: row.parent_id === null ? null : Number(row.parent_id),
    parentVisit: row.parent_visit,
    awaited: [],
    shown: [],
    hasChildren: false,
    durationMs: 0,
    decision: { kind: "stop", reason: "cancelled" },
  };
}
