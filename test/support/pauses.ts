// Pauses: the tests' side of core/src/pausePoint.ts, in this thread and in the processes of real nodes.
// A hold is for the next arrival alone; whoever comes after it passes.

import { mkdtempSync, rmSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { PauseGate, PausePoint } from "#core/pausePoint.js";
import { until } from "./until.js";

const GATE = Symbol.for("gen-durable.test.pauseGate");
const armed = globalThis as { [GATE]?: PauseGate };

export interface Hold {
  /** Resolves when somebody waits at the point. */
  reached: Promise<void>;
  /** Lets whoever waits there go on, or pass if nobody has come yet. */
  release(): void;
}

const holds = new Map<PausePoint, { arrive: () => void; gone: Promise<void> }>();

/** Holds the next arrival at a point, in this thread. */
export function holdAt(point: PausePoint): Hold {
  let arrive = (): void => undefined;
  let release = (): void => undefined;
  const reached = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const gone = new Promise<void>((resolve) => {
    release = resolve;
  });
  holds.set(point, { arrive, gone });
  armed[GATE] = (at) => {
    const hold = holds.get(at);
    if (hold === undefined) return undefined;
    holds.delete(at);
    hold.arrive();
    return hold.gone;
  };
  return { reached, release };
}

/** Nothing is held any more from now on. */
export function disarm(): void {
  holds.clear();
  delete armed[GATE];
}

/** Holds in the processes of real nodes: start them with `environment`. */
export class NodePauses {
  readonly #folder = mkdtempSync(join(tmpdir(), "gen-durable-pauses-"));

  get environment(): Record<string, string> {
    return {
      NODE_OPTIONS: `--require ${resolve("test/support/pauseGate.cjs")}`,
      GEN_DURABLE_TEST_PAUSES: this.#folder,
    };
  }

  /** Holds the next arrival at a point, whatever node or thread it is of. */
  hold(point: PausePoint): void {
    writeFileSync(join(this.#folder, point), "");
  }

  /** Resolves when somebody waits at the point. */
  async reached(point: PausePoint): Promise<void> {
    await until(() => statSync(join(this.#folder, `${point}.reached`), { throwIfNoEntry: false }), {
      describe: `a node stands at ${point}`,
    });
  }

  release(point: PausePoint): void {
    unlinkSync(join(this.#folder, `${point}.reached`));
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
