// Postgres limiter: counters in gen_durable_buckets, split into shards, locked for the length of one pick.
// PL1  Counters are locked after every instance row, in the order of kind, key and shard, and not waited for while any is
//      held: two picks share the shards of a key, and neither can deadlock the other. Either all counters of a pick are
//      locked by its admission, or none is, and it debits them in one ordered statement at its end.
// PL2  The CHECK on the counters and their primary key are the referees: a mistake here cannot be committed.
// PL3  Limits are read from gen_durable_bucket_configs by each admission, so that a change counts at once, everywhere.

import type { Statements } from "#core/database/statements.js";
import type { Session } from "#flusher/env.js";
import { creditSlots } from "#flusher/riders.js";
import { admitCandidates, poolName } from "./admission.js";
import {
  type Admission,
  type Candidate,
  type Limiter,
  type LimitKind,
  type OwedSlots,
  SlotsGone,
} from "./limiter.js";
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
  wide: boolean;
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

  /** Time that has not really passed is known to admissions alone. */
  get isBesideRows(): boolean {
    return this.#passedMs === 0;
  }

  async admit(
    session: Session,
    candidates: readonly Candidate[],
    { mayOwe = false }: { mayOwe?: boolean } = {},
  ): Promise<Admission> {
    const keys = keysOf(candidates);
    if (keys.length === 0)
      return {
        admitted: candidates.map(({ id }) => ({ id, shard: null })),
        denials: [],
        owed: [],
        isPlenty: false,
      };
    const records = await session.run<BucketRecord>(this.#statements.get("limiter/lock_buckets"), [
      keys.map(({ kind }) => kind),
      keys.map(({ key }) => key),
      this.#passedMs,
      keys.map(({ wanted }) => (mayOwe ? wanted : 0)),
    ]);
    const pools = poolsOf(records);
    const admission = admitCandidates(candidates, pools);
    await this.#write(session, [...pools.values()]);
    return admission;
  }

  async debit(session: Session, owed: readonly OwedSlots[]): Promise<void> {
    if (owed.length === 0) return;
    const [answer] = await session.run<{ debited: number }>(this.#statements.get("limiter/debit_slots"), [
      owed.map(({ key }) => key),
      owed.map(({ shard }) => shard),
      owed.map(({ slots }) => slots),
      owed.map(({ capacity }) => capacity),
    ]);
    if (answer?.debited !== owed.length) throw new SlotsGone();
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

interface WantedKey {
  kind: LimitKind;
  key: string;
  /** Candidates that want something of it. */
  wanted: number;
}

function keysOf(candidates: readonly Candidate[]): WantedKey[] {
  const keys = new Map<string, WantedKey>();
  const want = (kind: LimitKind, key: string): void => {
    const known = keys.get(poolName(kind, key));
    if (known === undefined) keys.set(poolName(kind, key), { kind, key, wanted: 1 });
    else known.wanted++;
  };
  for (const { gate, rate } of candidates) {
    if (gate !== null) want("conc", gate);
    if (rate !== null) want("rate", rate);
  }
  return [...keys.values()];
}

function poolsOf(records: readonly BucketRecord[]): Map<string, Pool> {
  const found = new Map<string, { facts: PoolFacts; shards: FoundShard[] }>();
  for (const { kind, key, rate, total, shards, wide, shard, ...counter } of records) {
    const name = poolName(kind, key);
    const pool = found.get(name) ?? {
      facts: { kind, key, rate, total, shards, isWide: wide },
      shards: [],
    };
    found.set(name, pool);
    if (shard !== null) pool.shards.push({ shard, ...(counter as Omit<FoundShard, "shard">) });
  }
  return new Map([...found].map(([name, { facts, shards }]) => [name, new Pool(facts, shards)]));
}

/** The order in which every pick makes the same counters: that of code units, the same on every node. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
