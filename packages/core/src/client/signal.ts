// Signal: durable named messages to instances that live. One statement for any number of them.
// G1  A signal that races a park is never lost: the delivery locks its target and judges the locked version, and the park
//     looks for signals that it was not shown, in the transaction that parks.
// G2  Without a live target nothing is stored, and the caller is told.
// G3  A redelivery with the same dedup key is a success that changes nothing, also after its signal was consumed.

import type { RuntimeFsm } from "../definition/definition.js";
import { checkOptions } from "../definition/options.js";
import { encodeInput } from "../definition/schema.js";
import { InvariantError, UsageError } from "../errors.js";
import type { JsonText } from "../instance.js";
import { encodeJson } from "../json.js";
import { checkName, describe, suggest } from "../name.js";
import { reading } from "../readable.js";
import type { Poker } from "./poker.js";
import type { Querier } from "./session.js";
import { readId, sparseText, type TextRow } from "./text.js";

/** Signals of one statement; more are cut into several. */
export const SIGNALS_MAX = 2_000;

/** Bytes of payload of one statement, unless a single signal has more. */
const PAYLOADS_BYTES_MAX = 4 * 1024 * 1024;

/** An instance: its id, or the correlation key that it occupies. */
export type SignalTarget = number | string;

export type SignalResult = { ok: true } | { ok: false; reason: "no_target" };

export interface SignalSettings {
  /** A redelivery with the same key to the same instance is stored once, for the instance's whole life. */
  dedupKey?: string | undefined;
}

/** One signal of many. */
export interface SignalRequest extends SignalSettings {
  target: SignalTarget;
  name: string;
  payload?: unknown;
}

/** A signal that has been checked. */
export interface EncodedSignal {
  target: SignalTarget;
  name: string;
  payload: JsonText;
  dedupKey: string | null;
}

export interface SignalUse {
  maxPayloadBytes: number;
  /** The machine whose schema the payload follows, where the caller says. */
  fsm: RuntimeFsm | null;
  path: string;
}

/** Checks a signal. @throws UsageError INVALID_TARGET, INVALID_NAME, INVALID_PAYLOAD, UNSTORABLE, PAYLOAD_TOO_LARGE */
export function encodeSignal(
  request: SignalRequest,
  { maxPayloadBytes, fsm, path }: SignalUse,
): EncodedSignal {
  return reading(path === "" ? "signal" : path, () =>
    encodeReadable(request, { maxPayloadBytes, fsm, path }),
  );
}

function encodeReadable(request: SignalRequest, { maxPayloadBytes, fsm, path }: SignalUse): EncodedSignal {
  const at = (key: string): string => (path === "" ? key : `${path}.${key}`);
  const name = checkName(request.name, at("name"));
  return {
    target: checkTarget(request.target, at("target")),
    name,
    payload: encodePayload(name, request.payload, { fsm, path: at("payload"), maxPayloadBytes }),
    dedupKey: request.dedupKey === undefined ? null : checkName(request.dedupKey, at("dedupKey")),
  };
}

/** Checks one entry of signalMany. */
export function encodeRequest(request: unknown, use: SignalUse): EncodedSignal {
  const given = checkOptions(request ?? null, ["target", "name", "payload", "dedupKey"], {
    code: "INVALID_OPTION",
    path: use.path,
  });
  // encodeSignal checks every field.
  return encodeSignal(given as unknown as SignalRequest, use);
}

export interface Delivery {
  querier: Querier;
  poker: Poker;
  inTx: boolean;
  poke: boolean;
}

/** Where a signal went: the live instance, or nowhere. */
export type Delivered = { ok: true; id: number } | { ok: false };

/** Delivers checked signals; answers one result each, in order. */
export async function deliverSignals(
  signals: readonly EncodedSignal[],
  delivery: Delivery,
): Promise<Delivered[]> {
  const results: Delivered[] = [];
  for (const chunk of chunksOf(signals)) {
    for (const { target } of await deliverOnce(chunk, delivery))
      results.push(
        target === null || target === undefined ? { ok: false } : { ok: true, id: readId(target) },
      );
  }
  return results;
}

/** What the caller of a signal is told. */
export function signalResult(delivered: Delivered | undefined): SignalResult {
  return delivered?.ok === true ? { ok: true } : { ok: false, reason: "no_target" };
}

async function deliverOnce(
  signals: readonly EncodedSignal[],
  { querier, poker, inTx, poke }: Delivery,
): Promise<TextRow[]> {
  const rows = await querier.run("client/deliver_signals", [
    sparseText(signals.map(({ target }) => (typeof target === "number" ? target : null))),
    sparseText(signals.map(({ target }) => (typeof target === "string" ? target : null))),
    sparseText(signals.map(({ name }) => name)),
    `[${signals.map(({ payload }) => payload).join(",")}]`,
    sparseText(signals.map(({ dedupKey }) => dedupKey)),
    ...poker.inStatement({ inTx, enabled: poke }),
  ]);
  if (rows.length !== signals.length)
    throw new InvariantError(`${signals.length} signals were given and ${rows.length} answered`);
  rows.sort((left, right) => Number(left.place) - Number(right.place));
  if (poke) poker.found(rows, { inTx });
  return rows;
}

function* chunksOf(signals: readonly EncodedSignal[]): Generator<readonly EncodedSignal[]> {
  let start = 0;
  let bytes = 0;
  for (let end = 0; end < signals.length; end++) {
    const signalBytes = signals[end]?.payload.length ?? 0;
    if (end - start >= SIGNALS_MAX || (end > start && bytes + signalBytes > PAYLOADS_BYTES_MAX)) {
      yield signals.slice(start, end);
      start = end;
      bytes = 0;
    }
    bytes += signalBytes;
  }
  if (start < signals.length) yield signals.slice(start);
}

/** An id or a correlation key. @throws UsageError INVALID_TARGET */
export function checkTarget(target: unknown, path: string): SignalTarget {
  if (typeof target === "string") return checkName(target, path);
  return checkId(target, path);
}

/** An instance's id. @throws UsageError INVALID_TARGET */
export function checkId(id: unknown, path: string): number {
  if (typeof id === "number" && Number.isSafeInteger(id) && id > 0) return id;
  throw new UsageError("INVALID_TARGET", `${path}: expected the id of an instance, found ${describe(id)}`, {
    path,
  });
}

function encodePayload(
  name: string,
  payload: unknown,
  { fsm, path, maxPayloadBytes }: { fsm: RuntimeFsm | null; path: string; maxPayloadBytes: number },
): JsonText {
  const schemas = fsm?.signalSchemas ?? null;
  if (schemas === null)
    return payload === undefined ? "null" : encodeJson(payload, { path, maxBytes: maxPayloadBytes });
  const schema = schemas.get(name);
  if (schema === undefined) {
    const names = [...schemas.keys()];
    throw new UsageError(
      "UNKNOWN_SIGNAL",
      `name: FSM "${fsm?.name}" takes no signal "${name}"${suggest(name, names)} (signals: ${names.join(", ")})`,
      { path: "name", name },
    );
  }
  return encodeInput(schema, payload, { path, code: "INVALID_PAYLOAD", maxBytes: maxPayloadBytes });
}
