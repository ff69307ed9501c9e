// Admission: goes through the candidates in pick order and draws what they need from the pools of their keys. Pure.

import type { Admission, Admitted, Candidate, Denial, LimitKind } from "./limiter.js";
import type { Pool } from "./pool.js";

/** A name for a pool: gates and rates may share a key. */
export function poolName(kind: LimitKind, key: string): string {
  return `${kind} ${key}`;
}

interface Tally {
  denial: Denial;
  isDenied: boolean;
}

export function admitCandidates(
  candidates: readonly Candidate[],
  pools: ReadonlyMap<string, Pool>,
): Admission {
  const admitted: Admitted[] = [];
  const tallies = new Map<string, Tally>();
  const tallyOf = (kind: LimitKind, key: string): Tally => {
    const name = poolName(kind, key);
    let tally = tallies.get(name);
    if (tally === undefined) {
      tally = {
        denial: { kind, key, why: "full", refillInMs: null, wanted: 0, granted: 0 },
        isDenied: false,
      };
      tallies.set(name, tally);
    }
    return tally;
  };

  for (const { id, gate, rate, weight } of candidates) {
    const gateTally = gate === null ? null : tallyOf("conc", gate);
    const rateTally = rate === null ? null : tallyOf("rate", rate);
    if (gateTally !== null) gateTally.denial.wanted++;
    if (rateTally !== null) rateTally.denial.wanted++;
    const gatePool = gate === null ? undefined : pools.get(poolName("conc", gate));
    const ratePool = rate === null ? undefined : pools.get(poolName("rate", rate));
    if (gateTally !== null && !gatePool?.fits(1)) {
      deny(gateTally, gatePool, 1);
      continue;
    }
    // LI2: behind a denied row of its rate key nobody goes first.
    if (rateTally !== null && (rateTally.isDenied || !ratePool?.fits(weight))) {
      deny(rateTally, ratePool, weight);
      continue;
    }
    ratePool?.takeTokens(weight);
    if (gateTally !== null) gateTally.denial.granted++;
    if (rateTally !== null) rateTally.denial.granted++;
    admitted.push({ id, shard: gatePool?.takeSlot() ?? null });
  }
  return {
    admitted,
    denials: [...tallies.values()].filter(({ isDenied }) => isDenied).map(({ denial }) => denial),
    owed: [...pools.values()].flatMap((pool) => pool.owed()),
    isPlenty: pools.size > 0 && [...pools.values()].every(({ isPlenty }) => isPlenty),
  };
}

/** The first denied row of a key says why, and when it can be afforded. */
function deny(tally: Tally, pool: Pool | undefined, weight: number): void {
  if (tally.isDenied) return;
  tally.isDenied = true;
  tally.denial.why = pool === undefined ? "unknown" : pool.isBusy ? "busy" : "full";
  tally.denial.refillInMs = pool?.affordsInMs(weight) ?? null;
}
