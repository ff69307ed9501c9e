// SignalOrInsert: a message that may come before its instance exists. The instance is signalled, or created with the signal
// in its inbox; either way in one transaction, and whatever it races, the message is in exactly one inbox.

import { TransientError } from "../errors.js";
import { pauseAt } from "../pausePoint.js";
import type { ChildInsert } from "../protocol/outcome.js";
import { insertRows } from "./insert.js";
import type { Poker } from "./poker.js";
import type { Querier, Session } from "./session.js";
import { deliverSignals, type EncodedSignal } from "./signal.js";

export type SignalOrInsertResult =
  /** `inserted`: the instance was created for the signal. */
  | { ok: true; inserted: boolean; id: number }
  /** The key is occupied by an instance that has ended (its scope says so): nothing was stored. */
  | { ok: false; reason: "no_target"; id: number };

/** Rounds of signal and insert, each of which may lose to somebody who ends or creates the instance. */
const ROUNDS_MAX = 10;

export interface SignalOrInsertTarget {
  session: Session;
  poker: Poker;
  /** The caller's transaction, or undefined. */
  querier: Querier | undefined;
  poke: boolean;
}

export async function signalOrInsert(
  row: ChildInsert,
  signal: EncodedSignal,
  target: SignalOrInsertTarget,
): Promise<SignalOrInsertResult> {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const result = await tryOnce(row, signal, target);
    if (result !== undefined) return result;
  }
  throw new TransientError(
    "CONTENDED",
    `the instance with correlation key "${row.correlationKey}" came and went ${ROUNDS_MAX} times during the call`,
  );
}

/** One round; undefined when the instance ended between its two halves. */
async function tryOnce(
  row: ChildInsert,
  signal: EncodedSignal,
  { session, poker, querier, poke }: SignalOrInsertTarget,
): Promise<SignalOrInsertResult | undefined> {
  const delivery = { querier: querier ?? session, poker, inTx: querier !== undefined, poke };
  const [delivered] = await deliverSignals([signal], delivery);
  if (delivered?.ok === true) return { ok: true, inserted: false, id: delivered.id };
  await pauseAt("signalOrInsert.missed");
  const insert = async (within: Querier): Promise<SignalOrInsertResult | undefined> => {
    const [inserted] = await insertRows([row], { session, poker, querier: within, poke });
    if (inserted === undefined) return undefined;
    const [second] = await deliverSignals([{ ...signal, target: inserted.id }], {
      querier: within,
      poker,
      inTx: true,
      // The new row was poked by its insert.
      poke: poke && !inserted.ok,
    });
    if (second?.ok === true) return { ok: true, inserted: inserted.ok, id: inserted.id };
    return (await isEnded(within, inserted.id, row.correlationKey))
      ? { ok: false, reason: "no_target", id: inserted.id }
      : undefined;
  };
  return querier === undefined ? session.transaction(insert) : insert(querier);
}

/** Whether the occupant has ended and keeps its key all the same. */
async function isEnded(querier: Querier, id: number, key: string | null): Promise<boolean> {
  const [found] = await querier.run("client/find_ended", [String(id), key]);
  return found !== undefined;
}
