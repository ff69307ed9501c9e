// Sweep: keeps the counters true and few. Plain, over a connection: the collector runs it.
// SW1  Counters are locked first, rows are counted in a later statement: what it counts is what the locks protect.
// SW2  All counters of a key go or none: a counter that is missing is a full one.
// SW3  Nobody is waited for: a key that a pick is using just now is left to the next sweep.

import type { Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import { pauseAt } from "#core/pausePoint.js";

/** Keys of one transaction; its locks keep picks of these keys waiting for their next try. */
const SWEEP_KEYS_MAX = 500;
const LOCK_TIMEOUT_MS = 500;

/** Reconciles every gate with the rows that execute. Returns how many keys lost their counters, and what was wrong. */
export async function reconcileGates(
  connection: Connection,
  statements: Statements,
): Promise<{ gates: number; healed: number; added: number }> {
  const total = { gates: 0, healed: 0, added: 0 };
  for (let after = ""; ; ) {
    const batch = await connection.transaction(
      async () => {
        const keys = await connection.run<{ key: string; whole: boolean }>(
          statements.get("limiter/lock_gates"),
          [after, SWEEP_KEYS_MAX],
        );
        await pauseAt("gates.locked");
        const whole = keys.filter((key) => key.whole).map(({ key }) => key);
        if (whole.length === 0) return keys;
        const [healed] = await connection.run<{ gates: number; healed: number; added: number }>(
          statements.get("limiter/heal_gates"),
          [whole],
        );
        total.gates += healed?.gates ?? 0;
        total.healed += healed?.healed ?? 0;
        total.added += healed?.added ?? 0;
        return keys;
      },
      { lockTimeoutMs: LOCK_TIMEOUT_MS },
    );
    const last = batch.at(-1);
    if (last === undefined || batch.length < SWEEP_KEYS_MAX) return total;
    after = last.key;
  }
}

/** Deletes the counters of rate keys that are full again. Returns how many counters went. */
export async function sweepRates(connection: Connection, statements: Statements): Promise<number> {
  let swept = 0;
  for (let after = ""; ; ) {
    const [batch] = await connection.run<{ last: string | null; keys: number; swept: number }>(
      statements.get("limiter/sweep_rates"),
      [after, SWEEP_KEYS_MAX],
    );
    swept += batch?.swept ?? 0;
    if (batch === undefined || batch.last === null || batch.keys < SWEEP_KEYS_MAX) return swept;
    after = batch.last;
  }
}
