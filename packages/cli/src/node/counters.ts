// Counters: what a node has done since its start, counted from its events, for /metrics.

/** Which number of which event adds to which counter; 1 counts the event itself. */
const COUNTED: Readonly<Record<string, Readonly<Record<string, string | 1>>>> = {
  pick: { picks: 1, rows_claimed: "claimed" },
  flush: {
    flushes: 1,
    outcomes_committed: "committed",
    outcomes_stale: "stale",
    outcomes_deferred: "deferred",
  },
  reap: { rows_reaped: "count" },
  reclaim: { rows_reclaimed: "count" },
  timeouts: { awaits_timed_out: "count" },
  sweep: { sweeps: 1, rows_swept: "rows" },
  contended: { claims_contended: 1 },
};

export class Counters {
  readonly #counts: Record<string, number> = {};

  constructor() {
    for (const counters of Object.values(COUNTED))
      for (const name of Object.keys(counters)) this.#counts[name] = 0;
  }

  /** Adds one event. */
  count(event: string, fields: Readonly<Record<string, unknown>>): void {
    for (const [name, field] of Object.entries(COUNTED[event] ?? {})) {
      const amount = field === 1 ? 1 : Number(fields[field] ?? 0);
      this.#counts[name] = (this.#counts[name] ?? 0) + amount;
    }
  }

  read(): Readonly<Record<string, number>> {
    return this.#counts;
  }
}
