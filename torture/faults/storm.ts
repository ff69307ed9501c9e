// Storm: the faults of a run, one after the other by number, at times drawn from the seed. Several may be at work at once.
// ST1  What fault number n is, and when it begins, depends on the seed and on n alone; it may have to wait for what it needs.
// ST2  Every kind comes once before any comes twice.

import { setTimeout as sleep } from "node:timers/promises";
import type { Berth } from "../fleet.js";
import { randomOf } from "../seed.js";
import type { FaultKind, FaultScene } from "./fault.js";
import { blackHole, cutCommits, resetCallers, resetConnections } from "./network.js";
import { changeConfig, drainNode, guest, killNode, skewClock, stopNode } from "./nodes.js";
import { killPostgres, slowCommits, stopPostgres, terminateBackends } from "./postgres.js";
import { blockThread, eatMemory, exitThread, hangStep } from "./threads.js";

export const FAULT_KINDS: readonly FaultKind[] = [
  killNode,
  stopNode,
  drainNode,
  guest,
  changeConfig,
  skewClock,
  exitThread,
  eatMemory,
  blockThread,
  hangStep,
  killPostgres,
  stopPostgres,
  terminateBackends,
  resetConnections,
  cutCommits,
  blackHole,
  slowCommits,
  resetCallers,
];

const LOOK_MS = 25;

export type StormScene = Omit<FaultScene, "random" | "w" | "pause" | "later">;

export interface StormOptions {
  seed: number;
  kinds: readonly FaultKind[];
  /** Between the beginnings of two faults, on average. */
  gapMs: number;
  scene: StormScene;
  /** Told what begins and what is over. */
  tell(line: string): void;
}

export class Storm {
  readonly #options: StormOptions;
  readonly #atWork = new Set<Promise<void>>();
  readonly #aftermaths = new Set<Promise<void>>();
  readonly #calm = new AbortController();
  #databaseIsBusy = false;
  /** Faults that were brought about, by kind. */
  readonly seen = new Map<string, number>();
  readonly errors: unknown[] = [];

  constructor(options: StormOptions) {
    this.#options = options;
  }

  /** Brings about faults until `calm`. */
  async run(): Promise<void> {
    for (let n = 0; !this.#calm.signal.aborted; n++) {
      const { seed, kinds, gapMs } = this.#options;
      const random = randomOf(seed, "fault", n);
      await this.#pause(random.between(gapMs / 2, gapMs * 1.5));
      const kind = randomOf(seed, "fault deck", Math.floor(n / kinds.length)).shuffle(kinds)[
        n % kinds.length
      ];
      if (kind === undefined) return;
      const place = await this.#take(kind, random.unit());
      if (place === undefined) return;
      const scene: FaultScene = {
        ...this.#options.scene,
        random,
        w: -1 - n,
        pause: (ms) => this.#pause(ms),
        later: (aftermath) => this.#track(aftermath),
      };
      this.seen.set(kind.name, (this.seen.get(kind.name) ?? 0) + 1);
      const where = place.berth === undefined ? "" : ` (${place.berth.name})`;
      this.#options.tell(`fault ${n}: ${kind.name}${where}`);
      const work = kind
        .run(scene, place.berth)
        .catch((error: unknown) => {
          if (!this.#calm.signal.aborted) this.errors.push(error);
        })
        .finally(() => {
          place.release();
          this.#options.tell(`fault ${n} is over: ${kind.name}${where}`);
          this.#atWork.delete(work);
        });
      this.#atWork.add(work);
    }
  }

  /** No new faults; resolves when those at work have made good what they did. */
  async calm(): Promise<void> {
    this.#calm.abort();
    while (this.#atWork.size > 0) await Promise.race(this.#atWork);
  }

  /** Resolves when nothing goes on any more. */
  async drained(): Promise<void> {
    while (this.#aftermaths.size > 0) await Promise.race(this.#aftermaths);
  }

  #track(aftermath: Promise<void>): void {
    const tracked = aftermath
      .catch((error: unknown) => {
        if (!this.#options.scene.caller.isOver) this.errors.push(error);
      })
      .finally(() => this.#aftermaths.delete(tracked));
    this.#aftermaths.add(tracked);
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#calm.signal }).catch(() => undefined);
  }

  /** What the kind needs, for itself; undefined when calm comes first. */
  async #take(
    { needs }: FaultKind,
    chance: number,
  ): Promise<{ berth: Berth | undefined; release: () => void } | undefined> {
    if (needs === "nothing") return { berth: undefined, release: () => undefined };
    while (!this.#calm.signal.aborted) {
      if (needs === "database" && !this.#databaseIsBusy) {
        this.#databaseIsBusy = true;
        return {
          berth: undefined,
          release: () => {
            this.#databaseIsBusy = false;
          },
        };
      }
      if (needs === "berth") {
        const free = this.#options.scene.fleet.berths.filter(
          ({ isBusy, node }) => !isBusy && node?.isReady === true && !node.hasExited,
        );
        const berth = free[Math.floor(chance * free.length)];
        if (berth !== undefined) {
          berth.isBusy = true;
          return {
            berth,
            release: () => {
              berth.isBusy = false;
            },
          };
        }
      }
      await this.#pause(LOOK_MS);
    }
    return undefined;
  }
}
