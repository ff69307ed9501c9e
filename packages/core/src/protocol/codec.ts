// Codec: claimed rows and outcomes as msgpack, positional, one buffer for a whole chunk or for a whole batch of one
// worker's turn: a fraction of what a structured clone of the objects costs, on both sides.
// The decision is msgpack's too: text, numbers and arrays of our own making, never a user's value.

import { Packr } from "msgpackr";
import type { WireOutcome } from "./outcome.js";
import type { ClaimedRow, Verdict } from "./row.js";

// useRecords would emit a structure table that only the same Packr can read.
const packr = new Packr({ useRecords: false, variableMapSize: true });

/** What an executor posts to a flusher: the bytes' owner moves with them. */
export interface OutcomeBatch {
  count: number;
  bytes: Uint8Array<ArrayBuffer>;
}

/** Packs outcomes. The bytes are a copy of their own, since msgpackr's buffer is shared and must not be transferred. */
export function packOutcomes(outcomes: readonly WireOutcome[]): OutcomeBatch {
  const packed = packr.pack(outcomes.map(toTuple));
  return { count: outcomes.length, bytes: new Uint8Array(packed) };
}

export function unpackOutcomes(batch: OutcomeBatch): WireOutcome[] {
  return (packr.unpack(batch.bytes) as OutcomeTuple[]).map(fromTuple);
}

/** What the coordinator posts to an executor: the bytes' owner moves with them. */
export interface RowBatch {
  count: number;
  bytes: Uint8Array<ArrayBuffer>;
}

/** Packs the rows of one chunk, in order. */
export function packRows(rows: readonly ClaimedRow[]): RowBatch {
  return { count: rows.length, bytes: new Uint8Array(packr.pack(rows.map(toRowTuple))) };
}

export function unpackRows(batch: RowBatch): ClaimedRow[] {
  return (packr.unpack(batch.bytes) as RowTuple[]).map(fromRowTuple);
}

type OutcomeTuple = [
  number,
  string,
  number,
  number,
  string,
  number,
  string,
  number,
  number,
  string,
  number | null,
  number | null,
  readonly number[],
  readonly number[],
  boolean,
  number,
  WireOutcome["decision"],
];

function toTuple(o: WireOutcome): OutcomeTuple {
  return [
    o.id,
    o.claim,
    o.seat,
    o.generation,
    o.fsm,
    o.version,
    o.step,
    o.visit,
    o.attempt,
    o.queue,
    o.parentId,
    o.parentVisit,
    o.awaited,
    o.shown,
    o.hasChildren,
    o.durationMs,
    o.decision,
  ];
}

function fromTuple(t: OutcomeTuple): WireOutcome {
  return {
    id: t[0],
    claim: t[1],
    seat: t[2],
    generation: t[3],
    fsm: t[4],
    version: t[5],
    step: t[6],
    visit: t[7],
    attempt: t[8],
    queue: t[9],
    parentId: t[10],
    parentVisit: t[11],
    awaited: t[12],
    shown: t[13],
    hasChildren: t[14],
    durationMs: t[15],
    decision: t[16],
  };
}

type RowTuple = [
  number,
  string,
  number,
  number,
  string,
  number,
  string,
  string,
  number,
  number,
  number,
  number,
  string,
  number,
  readonly string[],
  ClaimedRow["wokenBy"],
  string | null,
  string | null,
  number | null,
  number | null,
  string | null,
  Verdict | null,
  readonly number[],
];

function toRowTuple(r: ClaimedRow): RowTuple {
  return [
    r.id,
    r.claim,
    r.seat,
    r.generation,
    r.fsm,
    r.version,
    r.step,
    r.state,
    r.attempt,
    r.visit,
    r.crashes,
    r.reaps,
    r.queue,
    r.priority,
    r.awaits,
    r.wokenBy,
    r.inbox,
    r.children,
    r.parentId,
    r.parentVisit,
    r.cancelReason,
    r.verdict,
    r.awaitSeen,
  ];
}

function fromRowTuple(t: RowTuple): ClaimedRow {
  return {
    id: t[0],
    claim: t[1],
    seat: t[2],
    generation: t[3],
    fsm: t[4],
    version: t[5],
    step: t[6],
    state: t[7],
    attempt: t[8],
    visit: t[9],
    crashes: t[10],
    reaps: t[11],
    queue: t[12],
    priority: t[13],
    awaits: t[14],
    wokenBy: t[15],
    inbox: t[16],
    children: t[17],
    parentId: t[18],
    parentVisit: t[19],
    cancelReason: t[20],
    verdict: t[21],
    awaitSeen: t[22],
  };
}
