// Codec: outcomes as msgpack, positional, one buffer for a whole batch of one worker's turn.
// The decision is msgpack's too: text, numbers and arrays of our own making, never a user's value.

import { Packr } from "msgpackr";
import type { WireOutcome } from "./outcome.js";

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
    durationMs: t[14],
    decision: t[15],
  };
}
