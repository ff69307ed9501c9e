import type { Finding, Invariant } from "./invariant.js";

/** Picks may take their turn at a counter in another order than they began in; so far apart at most. */
const SLACK_MS = 300;
/** A chain takes its tokens some time after the commit that it is counted at. */
const AHEAD_SLACK_MS = 1_500;

interface Start {
  id: number;
  key: string;
  weight: number;
  atMs: number;
}

interface Bound {
  name: string;
  rate: number;
  capacity: number;
}

/** Rates: over every window of time, not more weight than its burst and its refill. Every claim counts, also of a lost run. */
export const rates: Invariant = {
  number: 6,
  title: "Rates: never more than burst + elapsed x rate started on a key",
  check: async (scene) => {
    const bounds = await scene.query<Bound & Record<string, unknown>>(
      "SELECT name, max(rate) AS rate, max(capacity) AS capacity FROM torture.limits WHERE kind = 'rate' GROUP BY name",
    );
    const starts = await scene.query<Start & Record<string, unknown>>(
      `SELECT id::float8 AS id, rate_limit AS key, weight, (extract(epoch FROM tx_at) * 1000)::float8 AS "atMs" FROM torture.history AS h
        WHERE status = 'executing' AND rate_limit IS NOT NULL
          AND (was_status = 'runnable'
               -- A chain that ran ahead: the transition, if its next step did begin there.
               OR (was_status = 'executing' AND visit > was_visit
                   AND EXISTS (SELECT FROM torture.runs r WHERE r.id = h.id AND r.visit = h.visit AND r.attempt = 0
                                  AND r.seen_claim = h.claim)))
        ORDER BY tx_at, n`,
    );
    const levels = new Map<string, { level: number; atMs: number; isBroken: boolean }>();
    const broken: Finding[] = [];
    for (const { id, key, weight, atMs } of starts) {
      const bound = bounds.find(({ name }) => name === key.split(":")[0]);
      if (bound === undefined) {
        broken.push({ id, text: `started under the rate "${key}", which is not configured` });
        continue;
      }
      const known = levels.get(key) ?? { level: bound.capacity, atMs, isBroken: false };
      // The bucket as it must be if every window is within its bound: it never falls below nothing.
      const refill = ((atMs - known.atMs) / 1_000) * bound.rate;
      const level = Math.min(bound.capacity, known.level + refill) - weight;
      const isBroken = level < -(bound.rate * (bound.name === "ahead" ? AHEAD_SLACK_MS : SLACK_MS)) / 1_000;
      if (isBroken && !known.isBroken)
        broken.push({ id, text: `started ${(-level).toFixed(1)} tokens above the bound of "${key}"` });
      levels.set(key, { level, atMs, isBroken });
    }
    return { cases: starts.length, broken };
  },
};
