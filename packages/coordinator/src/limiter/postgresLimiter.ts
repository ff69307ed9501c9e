// Postgres limiter: counters in gen_durable_buckets, split into shards, locked for the length of one pick.
// PL1  Counters are locked after every instance row, in the order of kind, key and shard, and never waited for: two picks
//      share the shards of a key, and neither can deadlock the other.
// PL2  The CHECK on the counters and their primary key are the referees: a mistake here cannot be committed.
// PL3  Limits are read from gen_durable_bucket_configs by each admission, so that a change counts at once, everywhere.

import type { Statements } from "#core/database/statements.js";
import type { Session } from "#flusher/env.js";
import { creditSlots } from "#flusher/riders.js";
import { admitCandidates, poolName } from "./admission.js";
import type { Admission, Candidate, Limiter, LimitKind } from "./limiter.js";
import { type FoundShard, Pool, type PoolFacts } from "./pool.js";

interface BucketRecord {
  kind: LimitKind;
  key: string;
  rate: number | null;
  total: number;
  shards: number;
  shard: number | null;
  capacity: number;
  available: number;
  debt: number;
  grabbed: boolean;
  [column: string]: unknown;
}

export class PostgresLimiter implements Limiter {
  readonly #statements: Statements;
  readonly #passedMs: number;

  /** `passedMs`: time that counts as passed since the last refill, beside the real one (the testing helpers). */
  constructor(statements: Statements, options: { passedMs?: number } = {}) {
    this.#statements = statements;
    this.#passedMs = options.passedMs ?? 0;
  }

  async admit(session: Session, candidates: readonly Candidate[]): Promise<Admission> {
    const keys = keysOf(candidates);
    if (keys.length === 0)
      return { admitted: candidates.map(({ id }) => ({ id, shard: null })), denials: [] };
    const records = await session.run<BucketRecord>(this.#statements.get("limiter/lock_buckets"), [
      keys.map(({ kind }) => kind),
      keys.map(({ key }) => key),
      this.#passedMs,
    ]);
    const pools = poolsOf(records);
    const admission = admitCandidates(candidates, pools);
    await this.#write(session, [...pools.values()]);
    return admission;
  }

  async credit(session: Session, slots: readonly { key: string; shard: number }[]): Promise<void> {
    await creditSlots(session, slots, { statements: this.#statements });
  }

  async #write(session: Session, pools: readonly Pool[]): Promise<void> {
    const changes = pools
      .flatMap((pool) => pool.changed().map((shard) => ({ ...shard, ...pool.facts })))
      .sort((a, b) => compare(a.kind, b.kind) || compare(a.key, b.key) || a.shard - b.shard);
    if (changes.length === 0) return;
    await session.run(this.#statements.get("limiter/write_buckets"), [
      changes.map(({ kind }) => kind),
      changes.map(({ key }) => key),
      changes.map(({ shard }) => shard),
      changes.map(({ capacity }) => capacity),
      changes.map(({ available }) => available),
      changes.map(({ debt }) => debt),
      changes.map(({ exists }) => !exists),
    ]);
  }
}

function keysOf(candidates: readonly Candidate[]): { kind: LimitKind; key: string }[] {
  const keys = new Map<string, { kind: LimitKind; key: string }>();
  for (const { gate, rate } of candidates) {
    if (gate !== null) keys.set(poolName("conc", gate), { kind: "conc", key: gate });
    if (rate !== null) keys.set(poolName("rate", rate), { kind: "rate", key: rate });
  }
  return [...keys.values()];
}

function poolsOf(records: readonly BucketRecord[]): Map<string, Pool> {
  const found = new Map<string, { facts: PoolFacts; shards: FoundShard[] }>();
  for (const { kind, key, rate, total, shards, shard, ...counter } of records) {
    const name = poolName(kind, key);
    const pool = found.get(name) ?? { facts: { kind, key, rate, total, shards }, shards: [] };
    found.set(name, pool);
    if (shard !== null) pool.shards.push({ shard, ...(counter as Omit<FoundShard, "shard">) });
  }
  return new Map([...found].map(([name, { facts, shards }]) => [name, new Pool(facts, shards)]));
}

/** The order in which every pick makes the same counters: that of code units, the same on every node. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
