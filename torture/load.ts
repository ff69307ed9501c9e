// Load: gives out work, one piece after the other by number, as fast as it ends.
// LD1  What piece number w is depends on the seed and on w alone.
// LD2  At most `sizeMax` instances are out at once, so that a node in trouble is met with a backlog and not with a flood.

import type { Caller } from "./caller.js";
import { randomOf } from "./seed.js";
import type { WorkKind } from "./work/work.js";

export interface LoadOptions {
  seed: number;
  kinds: readonly WorkKind[];
  callers: readonly Caller[];
  sizeMax: number;
}

export class Load {
  readonly #options: LoadOptions;
  readonly #out = new Set<Promise<void>>();
  #size = 0;
  #number = 0;
  #isOpen = true;
  #wake: () => void = () => undefined;
  /** Pieces given out, by kind. */
  readonly given = new Map<string, number>();
  /** Errors of the harness itself. */
  readonly errors: unknown[] = [];

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  /** Gives out work until it is closed. */
  async run(): Promise<void> {
    const { sizeMax } = this.#options;
    while (this.#isOpen) {
      if (this.#size >= sizeMax) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      this.#give(++this.#number);
    }
  }

  /** No new work from now on. */
  close(): void {
    this.#isOpen = false;
    this.#wake();
  }

  /** Resolves when all work has ended, or has given up. */
  async drained(): Promise<void> {
    while (this.#out.size > 0) await Promise.race(this.#out);
  }

  #give(w: number): void {
    const { seed, callers } = this.#options;
    const kind = kindOf(this.#options, w);
    const random = randomOf(seed, "work", w);
    const caller = random.pick(callers);
    this.#size += kind.size;
    this.given.set(kind.name, (this.given.get(kind.name) ?? 0) + 1);
    const piece = kind
      .run({ w, random, caller })
      .catch((error: unknown) => {
        if (!caller.isOver) this.errors.push(error);
      })
      .finally(() => {
        this.#size -= kind.size;
        this.#out.delete(piece);
        this.#wake();
      });
    this.#out.add(piece);
  }
}

/** The kind of piece number w: a deck with each kind at its share, shuffled anew each time it is through. */
export function kindOf({ seed, kinds }: Pick<LoadOptions, "seed" | "kinds">, w: number): WorkKind {
  const deck = kinds.flatMap((kind) => Array.from({ length: kind.share }, () => kind));
  const round = Math.floor(w / deck.length);
  const kind = randomOf(seed, "deck", round).shuffle(deck)[w % deck.length];
  if (kind === undefined) throw new Error("there is no work");
  return kind;
}
