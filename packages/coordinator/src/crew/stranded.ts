// Stranded: chains whose next step is committed and cannot begin where it is.
//
// ST1  A thread that takes no work (blocked, condemned, set apart) gets no permits: its chains go back at once.
// ST2  Elsewhere a chain waits for a permit like any row, and goes back after STEAL_AFTER_MS while another thread has one free.
//      Not so where a limit is asked, or has given a slot or a token for this very step: a token would be spent for nothing.

import type { Ledger } from "#core/ledger.js";
import type { HeldRow } from "../held.js";
import { STEAL_AFTER_MS } from "./bounds.js";
import type { Member } from "./member.js";
import type { Permits } from "./permits.js";

/** The chains that are to be taken back; one may begin before it is. */
export function strandedChains(
  members: readonly Member[],
  permits: Permits,
  ledger: Ledger,
  nowMs: number,
): HeldRow[] {
  return members.flatMap((member) => {
    if (member.chains.size === 0) return [];
    if (member.takesWork && !members.some((other) => other !== member && other.takesWork)) return [];
    const waiting = [...member.chains].filter(({ row }) => ledger.isChained(row.seat, row.generation));
    if (!member.takesWork) return waiting;
    const late = waiting.filter(
      ({ row, admission }) => admission === "none" && nowMs - ledger.begunAtMs(row.seat) > STEAL_AFTER_MS,
    );
    return withinFree(late, member, permits);
  });
}

/** ST2: of each queue at most as many as others could begin at once. */
function withinFree(late: readonly HeldRow[], member: Member, permits: Permits): HeldRow[] {
  const free = new Map<number, number>();
  return late.filter(({ queueIndex }) => {
    const left = free.get(queueIndex) ?? permits.freeElsewhere(member, queueIndex);
    free.set(queueIndex, left - 1);
    return left > 0;
  });
}
