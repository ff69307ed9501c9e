// Continued: what the coordinator does about commits whose rows stay held, because their next steps run ahead.
// CN1  The crew knows a row's new step before anything is asked or told about it.

import type { ContinuedRow } from "#core/protocol/flusher.js";
import type { HeldRow, HeldTable } from "./held.js";
import type { Picker } from "./picker.js";

export interface ContinuedOptions {
  held: HeldTable;
  /** Notes step and visit of the rows. */
  carry(rows: readonly { held: HeldRow; to: ContinuedRow }[]): void;
  /** Asks the limits of the rows' next steps. */
  ask(rows: readonly HeldRow[]): void;
  /** By queue. */
  pickers(): readonly Picker[];
}

export function takeContinued(continued: readonly ContinuedRow[], options: ContinuedOptions): void {
  const { held: table, carry, ask } = options;
  const rows: { held: HeldRow; to: ContinuedRow }[] = [];
  const asking: HeldRow[] = [];
  const leftKeys: string[] = [];
  const counts: number[] = [];
  for (const to of continued) {
    const held = table.at(to.seat, to.generation);
    if (held === undefined) continue;
    rows.push({ held, to });
    counts[held.queueIndex] = (counts[held.queueIndex] ?? 0) + 1;
    if (to.needsAdmission) asking.push(held);
    const { concurrencyKey } = held;
    if (to.key !== undefined && concurrencyKey !== null && concurrencyKey !== to.key)
      leftKeys.push(concurrencyKey);
  }
  carry(rows);
  if (asking.length > 0) ask(asking);
  const pickers = options.pickers();
  if (leftKeys.length > 0) for (const picker of pickers) picker.freed(leftKeys);
  counts.forEach((count, queueIndex) => {
    pickers[queueIndex]?.continued(count);
  });
}
