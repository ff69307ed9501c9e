// Pool: the counters of one key, as an admission has locked them. Pure: what is in them, what is left of them.
// PO1  A gate's shard: available = capacity - in use + debt; debt is what is in use beyond a capacity that was lowered.
// PO2  A counter that does not exist is full. Those of a key are made when something is first drawn from it, never before.
// PO3  While a shard of a changed limit is locked by somebody else nothing is admitted: what it owes is not known.
// PO4  A wide pool is not locked: what is drawn from it is owed, and debited at the end of the pick.

import type { LimitKind, OwedSlots } from "./limiter.js";

/** Below this a token is a rounding error. */
const EPSILON = 1e-9;

export interface Shard {
  shard: number;
  capacity: number;
  available: number;
  debt: number;
  /** False: it does not exist yet. */
  exists: boolean;
  isChanged: boolean;
  /** Slots drawn from it. */
  drawn: number;
}

export interface PoolFacts {
  kind: LimitKind;
  key: string;
  /** Tokens a second; null for a gate. */
  rate: number | null;
  /** The limit, or the burst. */
  total: number;
  shards: number;
  /** Nothing of it is locked, for there is plenty (PO4). */
  isWide: boolean;
}

export interface FoundShard {
  shard: number;
  capacity: number;
  available: number;
  debt: number;
  grabbed: boolean;
}

export class Pool {
  readonly facts: PoolFacts;
  readonly #shards: Shard[] = [];
  #debt = 0;
  #isBusy = false;
  /** Nothing may be drawn before the changed limit is settled (PO3). */
  #isBlocked = false;
  /** The shard that slots come from. */
  #source: Shard | undefined;
  #taken = 0;

  constructor(facts: PoolFacts, found: readonly FoundShard[]) {
    this.facts = facts;
    const isChanged = found.some(({ shard, capacity }) => capacity !== this.#capacityOf(shard));
    this.#isBusy = !facts.isWide && found.some(({ grabbed }) => !grabbed);
    this.#isBlocked = isChanged && this.#isBusy;
    const isOurs = ({ grabbed }: FoundShard): boolean => grabbed || facts.isWide;
    this.#debt = found.reduce((sum, shard) => sum + (isOurs(shard) ? 0 : shard.debt), 0);
    for (const { grabbed, ...shard } of found.filter(isOurs)) {
      // A shard beyond those that are configured has refilled as well, and holds nothing.
      const available =
        facts.kind === "rate" ? Math.min(shard.available, this.#capacityOf(shard.shard)) : shard.available;
      this.#shards.push({ ...shard, available, exists: true, isChanged: false, drawn: 0 });
    }
    if (this.#isBlocked || facts.isWide) return;
    const known = new Set(found.map(({ shard }) => shard));
    for (let shard = 0; shard < facts.shards; shard++) {
      const capacity = this.#capacityOf(shard);
      if (!known.has(shard))
        this.#shards.push({
          shard,
          capacity,
          available: capacity,
          debt: 0,
          exists: false,
          isChanged: false,
          drawn: 0,
        });
    }
    if (isChanged) this.#settle();
    this.#debt += this.#shards.reduce((sum, { debt }) => sum + debt, 0);
  }

  /** Whether a part of the counters is somebody else's just now: waiting a moment may help. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** What can be drawn: what is there, less what shards of a lowered limit still owe. */
  get available(): number {
    if (this.#isBlocked) return 0;
    return this.#shards.reduce((sum, { available }) => sum + available, 0) - this.#debt;
  }

  fits(weight: number): boolean {
    return weight <= this.available + EPSILON;
  }

  /**
   * Takes a slot; returns its shard. A pick draws on the fullest one as long as that lasts: its rows end together, and their
   * commit touches few counters; the next pick draws on another.
   */
  takeSlot(): number {
    if (this.#source === undefined || this.#source.available < 1)
      this.#source = this.#shards.reduce((a, b) => (b.available > a.available ? b : a));
    if (this.#taken === 0) this.#makeAll();
    this.#source.available -= 1;
    this.#source.drawn += 1;
    this.#source.isChanged = true;
    this.#taken += 1;
    return this.#source.shard;
  }

  /** Whether as much is left as was taken, and nobody is in the way. */
  get isPlenty(): boolean {
    return !this.#isBusy && !this.#isBlocked && this.#taken > 0 && this.available >= this.#taken;
  }

  /** PO4: what was drawn and is not locked. */
  owed(): OwedSlots[] {
    if (!this.facts.isWide) return [];
    return this.#shards
      .filter(({ drawn }) => drawn > 0)
      .map(({ shard, drawn, capacity }) => ({ key: this.facts.key, shard, slots: drawn, capacity }));
  }

  /** Takes tokens from every shard, in proportion to what it has. */
  takeTokens(weight: number): void {
    const there = this.#shards.reduce((sum, { available }) => sum + available, 0);
    this.#taken += weight;
    for (const shard of this.#shards) {
      shard.available = Math.max(shard.available - weight * (shard.available / there), 0);
      shard.isChanged = true;
    }
  }

  /** In how many milliseconds so much will be there; null where time alone does not bring it. */
  affordsInMs(weight: number): number | null {
    const { rate } = this.facts;
    if (rate === null || rate === 0) return null;
    return (Math.max(weight - this.available, 0) / rate) * 1_000;
  }

  /** The counters to write. */
  changed(): Shard[] {
    if (this.facts.isWide) return [];
    return this.#shards.filter(({ isChanged }) => isChanged).sort((a, b) => a.shard - b.shard);
  }

  /** Other picks find all of its counters, and each can draw on another. */
  #makeAll(): void {
    for (const shard of this.#shards) if (!shard.exists) shard.isChanged = true;
  }

  /** A limit, its shards or both were changed: every counter gets its new capacity, and what is in use stays in use. */
  #settle(): void {
    for (const shard of this.#shards) {
      const capacity = this.#capacityOf(shard.shard);
      if (capacity === shard.capacity) continue;
      if (this.facts.kind === "conc") {
        const inUse = shard.capacity - shard.available + shard.debt;
        shard.available = Math.max(capacity - inUse, 0);
        shard.debt = Math.max(inUse - capacity, 0);
      } else {
        shard.available = Math.min(shard.available, capacity);
      }
      shard.capacity = capacity;
      shard.isChanged = true;
    }
  }

  #capacityOf(shard: number): number {
    const { kind, total, shards } = this.facts;
    if (shard >= shards) return 0;
    return kind === "rate" ? total / shards : Math.floor(total / shards) + (shard < total % shards ? 1 : 0);
  }
}
