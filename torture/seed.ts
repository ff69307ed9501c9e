// Seed: every random choice of a run comes from the run's seed and a label that says what is chosen, so that a choice does
// not depend on which others were made before it. The same seed is the same plan of work and of faults.

export class Random {
  #state: number;

  constructor(label: string) {
    // FNV-1a: neighbouring labels give unrelated streams.
    let hash = 0x811c9dc5;
    for (let at = 0; at < label.length; at++) hash = Math.imul(hash ^ label.charCodeAt(at), 0x01000193);
    this.#state = hash;
    this.unit();
  }

  /** From 0 to below 1 (mulberry32). */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `from` to `to`, both included. */
  between(from: number, to: number): number {
    return from + Math.floor(this.unit() * (to - from + 1));
  }

  chance(share: number): boolean {
    return this.unit() < share;
  }

  /** @throws for an empty list */
  pick<T>(list: readonly T[]): T {
    if (list.length === 0) throw new Error("nothing to pick from");
    return list[this.between(0, list.length - 1)] as T; // the index is within the list
  }

  /** A list of `count` values. */
  list<T>(count: number, make: () => T): T[] {
    return Array.from({ length: count }, make);
  }

  shuffle<T>(list: readonly T[]): T[] {
    return list
      .map((item) => ({ item, order: this.unit() }))
      .sort((a, b) => a.order - b.order)
      .map(({ item }) => item);
  }
}

/** The stream of one seed under one label. */
export function randomOf(seed: number, ...label: (string | number)[]): Random {
  return new Random([seed, ...label].join("/"));
}
