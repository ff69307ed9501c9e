// Insert: rows that a client creates. Everything is checked before the first statement; then rows go in chunks, one
// statement each.
// N1  A result belongs to its row: results come in the order in which the rows were given.
// N2  A duplicate is a result, not an error. Its occupant is looked up by a new statement, because the row that a key
//     conflicted with can be invisible to the statement that it stopped; an occupant that is gone by then is no
//     reason to give up: the row is inserted again, a bounded number of times.
// N3  The keys of a call are inserted in one order, so that callers with the same new keys do not deadlock.

import { InvariantError, TransientError } from "../errors.js";
import type { Status } from "../instance.js";
import { pauseAt } from "../pausePoint.js";
import type { QueueDue } from "../protocol/flusher.js";
import type { ChildInsert, Due } from "../protocol/outcome.js";
import type { Poker } from "./poker.js";
import type { Querier, Session } from "./session.js";
import { arrayText, columnText, type Param, readId, sparseText, type TextRow } from "./text.js";

/** Rows of one statement: past some thousands a larger one is no faster, and its memory and locks only grow. */
export const CHUNK_ROWS_MAX = 2_000;

/** Bytes of state of one statement, unless a single row has more. */
export const CHUNK_BYTES_MAX = 4 * 1024 * 1024;

/** Chunks on their way at once, each on a connection of its own: one is prepared while the others are written. */
const CHUNKS_AT_ONCE_MAX = 2;

/** How often a row whose key was occupied, and free a moment later, is tried again. */
const OCCUPANT_LOOKUPS_MAX = 10;

export type InsertResult = { ok: true; id: number } | { ok: false; reason: "duplicate"; id: number };

export interface InsertTarget {
  session: Session;
  poker: Poker;
  /** The caller's transaction, or undefined: every chunk commits by itself. */
  querier: Querier | undefined;
  poke: boolean;
}

/** Inserts checked rows. @throws TransientError when the database cannot be reached; chunks before it are committed. */
export async function insertRows(
  rows: readonly ChildInsert[],
  target: InsertTarget,
): Promise<InsertResult[]> {
  const results = new Array<InsertResult>(rows.length);
  const chunks = chunksOf(rows, target.querier !== undefined);
  let next = 0;
  const work = async (): Promise<void> => {
    for (let chunk = chunks[next++]; chunk !== undefined; chunk = chunks[next++]) {
      await insertChunk(rows, chunk, results, target);
    }
  };
  const workers = Math.min(target.querier === undefined ? CHUNKS_AT_ONCE_MAX : 1, chunks.length);
  const ended = await Promise.allSettled(Array.from({ length: workers }, work));
  for (const end of ended) if (end.status === "rejected") throw end.reason;
  return results;
}

/**
 * Cuts the rows into statements: lists of their places. In one transaction the statements' locks add up, so there the keys
 * go in order through all of them.
 */
export function chunksOf(rows: readonly ChildInsert[], inOneTransaction: boolean): number[][] {
  const places = Array.from(rows, (_, place) => place);
  if (inOneTransaction && rows.length > CHUNK_ROWS_MAX) {
    places.sort((left, right) => compareKeys(rows[left], rows[right]));
  }
  const chunks: number[][] = [];
  let chunk: number[] = [];
  let bytes = 0;
  for (const place of places) {
    const rowBytes = rows[place]?.state.length ?? 0;
    if (chunk.length >= CHUNK_ROWS_MAX || (chunk.length > 0 && bytes + rowBytes > CHUNK_BYTES_MAX)) {
      chunks.push(chunk);
      chunk = [];
      bytes = 0;
    }
    chunk.push(place);
    bytes += rowBytes;
  }
  if (chunk.length > 0) chunks.push(chunk);
  return chunks;
}

function compareKeys(left: ChildInsert | undefined, right: ChildInsert | undefined): number {
  const one = left?.correlationKey ?? null;
  const other = right?.correlationKey ?? null;
  if (one === other) return 0;
  if (one === null) return 1;
  if (other === null) return -1;
  return one < other ? -1 : 1;
}

async function insertChunk(
  rows: readonly ChildInsert[],
  chunk: readonly number[],
  results: InsertResult[],
  target: InsertTarget,
): Promise<void> {
  const { querier = target.session } = target;
  let places = chunk;
  for (let lookups = 0; places.length > 0; lookups++) {
    const given = places.map((place) => rowAt(rows, place));
    const plan = target.poker.plan(given.map(queueDue), {
      inTx: target.querier !== undefined,
      enabled: target.poke,
    });
    let inserted: (number | undefined)[] = [];
    try {
      inserted = await insertOnce(given, [target.poker.channel, arrayText(plan.payloads)], querier);
    } finally {
      plan.ended(inserted.some((id) => id !== undefined));
    }
    const left: number[] = [];
    places.forEach((place, index) => {
      const id = inserted[index];
      if (id === undefined) left.push(place);
      else results[place] = { ok: true, id };
    });
    if (left.length === 0) return;
    await pauseAt("insert.refused");
    places = await settleDuplicates(rows, left, results, querier);
    if (places.length > 0 && lookups >= OCCUPANT_LOOKUPS_MAX) {
      throw new TransientError(
        "CONTENDED",
        `correlation key "${rows[places[0] ?? 0]?.correlationKey}" was occupied and free again ${lookups} times in a row`,
      );
    }
  }
}

/** Inserts what is not occupied; answers the new id, or undefined, of each row. */
async function insertOnce(
  given: readonly ChildInsert[],
  poke: readonly Param[],
  querier: Querier,
): Promise<(number | undefined)[]> {
  const scope = given[0]?.correlationScope ?? [];
  if (given.every((row) => row.correlationKey === null && isSameScope(row.correlationScope, scope))) {
    const inserted = await querier.run("client/insert_unkeyed", [
      ...columnsOf(given),
      arrayText(scope),
      ...poke,
    ]);
    if (inserted.length !== given.length)
      throw new InvariantError(`${given.length} rows were given and ${inserted.length} inserted`);
    return inserted.map(idOf);
  }
  const inserted = await querier.run("client/insert_keyed", [
    ...columnsOf(given),
    sparseText(given.map((row) => row.correlationKey)),
    columnText(given.map((row) => arrayText(row.correlationScope))),
    ...poke,
  ]);
  return matchInserted(given, inserted);
}

/**
 * Tells which of the given rows the new ones are. Rows without a key were all inserted, in order; of rows with one key
 * those that it does not guard were all inserted, in order, and of those that it guards at most the first.
 */
export function matchInserted(
  given: readonly ChildInsert[],
  inserted: readonly TextRow[],
): (number | undefined)[] {
  const ids = new Map<string, number[]>();
  for (const row of inserted) {
    const key = identityOf(row.correlation_key ?? null, row.guarded === "yes");
    const known = ids.get(key);
    if (known === undefined) ids.set(key, [idOf(row)]);
    else known.push(idOf(row));
  }
  for (const known of ids.values()) known.sort((left, right) => left - right).reverse();
  return given.map(({ correlationKey, correlationScope }) => {
    const isGuarded = correlationKey !== null && correlationScope.includes("runnable");
    return ids.get(identityOf(correlationKey, isGuarded))?.pop();
  });
}

function identityOf(key: string | null, isGuarded: boolean): string {
  return key === null ? "none" : `${isGuarded ? "guarded" : "loose"} ${key}`;
}

/** Answers duplicates whose occupant is found; returns the places of rows whose key is free by now. */
async function settleDuplicates(
  rows: readonly ChildInsert[],
  places: readonly number[],
  results: InsertResult[],
  querier: Querier,
): Promise<number[]> {
  const keys = [...new Set(places.map((place) => rowAt(rows, place).correlationKey ?? ""))];
  const found = await querier.run("client/find_occupants", [arrayText(keys)]);
  const occupants = new Map(found.map((row) => [row.correlation_key, idOf(row)]));
  return places.filter((place) => {
    const id = occupants.get(rowAt(rows, place).correlationKey);
    if (id === undefined) return true;
    results[place] = { ok: false, reason: "duplicate", id };
    return false;
  });
}

function columnsOf(given: readonly ChildInsert[]): Param[] {
  return [
    columnText(given.map((row) => row.fsm)),
    columnText(given.map((row) => row.version)),
    columnText(given.map((row) => row.step)),
    `[${given.map((row) => row.state).join(",")}]`,
    columnText(given.map((row) => row.queue)),
    columnText(given.map((row) => row.priority)),
    sparseText(given.map((row) => delayOf(row.due))),
    sparseText(given.map((row) => instantOf(row.due))),
    sparseText(given.map((row) => row.concurrencyKey)),
    sparseText(given.map((row) => row.rateLimit)),
    columnText(given.map((row) => row.weight)),
  ];
}

function isSameScope(one: readonly Status[], other: readonly Status[]): boolean {
  return one === other || one.join() === other.join();
}

function delayOf(due: Due | null): number | null {
  return due !== null && "delayMs" in due ? due.delayMs : null;
}

function instantOf(due: Due | null): number | null {
  return due !== null && "atMs" in due ? due.atMs : null;
}

/** An instant is told from this machine's clock; where it differs from the database's, the poke is only less exact. */
function queueDue(row: ChildInsert): QueueDue {
  const { queue, due } = row;
  if (due === null) return { queue, dueInMs: 0 };
  return { queue, dueInMs: Math.max(0, "delayMs" in due ? due.delayMs : due.atMs - Date.now()) };
}

function rowAt(rows: readonly ChildInsert[], place: number): ChildInsert {
  const row = rows[place];
  if (row === undefined) throw new InvariantError(`no row at place ${place}`);
  return row;
}

function idOf(row: TextRow): number {
  return readId(row.id);
}
