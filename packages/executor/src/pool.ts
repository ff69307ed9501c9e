// ExecutorPool: the executor threads of one node, spawned, limited and ended by Piscina.
//
// P1  One Piscina task is one session and lives as long as its thread: a thread is never used by a second session.
// P2  `closed` resolves only when the thread is really gone and runs no more user code. Piscina settles an aborted task
//     earlier; the close of a port that the thread holds to its end is the proof.
// P3  Atomics are disabled: Piscina's default parks an idle thread so that no timer and no port message in it runs.

import { MessageChannel, type MessagePort, type Transferable } from "node:worker_threads";
import { Piscina } from "piscina";
import type { SessionTask } from "#core/protocol/executor.js";

/** Young generation of a thread's heap, MiB: Node's own default, stated because limits given in part reset the rest. */
const YOUNG_HEAP_MB = 48;

/** Stack of a thread, MiB; Node's own default. */
const STACK_MB = 4;

export interface SessionEnd {
  /** Why the thread is gone: the error or exit code it ended with, or that it was told to. */
  reason: string;
}

export interface OpenSession {
  closed: Promise<SessionEnd>;
  /** Ends the thread, wherever its code is; `closed` resolves when it is gone. */
  terminate(): void;
}

/** What the pool adds to the task: a port that is open as long as the thread lives. */
export interface PoolTask {
  session: SessionTask;
  life: MessagePort;
}

interface Waiting {
  fail(reason: string): void;
}

export class ExecutorPool {
  readonly #piscina: Piscina;
  /** Sessions whose thread has not said yet that it runs; a thread that fails to start fails them. */
  readonly #waiting = new Set<Waiting>();

  constructor(options: { threads: number; heapMb: number; entry?: URL }) {
    this.#piscina = new Piscina({
      filename: (options.entry ?? new URL("./worker.js", import.meta.url)).href,
      minThreads: 0,
      maxThreads: options.threads,
      concurrentTasksPerWorker: 1,
      atomics: "disabled",
      idleTimeout: Number.POSITIVE_INFINITY,
      recordTiming: false,
      resourceLimits: {
        maxOldGenerationSizeMb: options.heapMb,
        maxYoungGenerationSizeMb: YOUNG_HEAP_MB,
        stackSizeMb: STACK_MB,
      },
    });
    // Emitted for a thread that fails before it has a task; an "error" event without a listener would end the process.
    this.#piscina.on("error", (error: Error) => {
      for (const waiting of [...this.#waiting]) waiting.fail(error.message);
    });
  }

  /** Opens a session on a thread of its own. `transferList` holds the ports in `task`; they are gone afterwards. */
  openSession(task: SessionTask, transferList: readonly MessagePort[]): OpenSession {
    const { port1, port2 } = new MessageChannel();
    const transferred = [...transferList, port2];
    const abort = new AbortController();
    let reason = "it was told to";
    const end = (): void => {
      abort.abort();
      // Where the task never reached a thread, its ports are still here; elsewhere this changes nothing.
      for (const port of transferred) port.close();
    };
    const waiting: Waiting = {
      fail: (why) => {
        reason = why;
        end();
      },
    };
    this.#waiting.add(waiting);
    port1.once("message", () => this.#waiting.delete(waiting));

    const settled = this.#piscina
      .run({ session: task, life: port2 } satisfies PoolTask, {
        transferList: transferred as Transferable[],
        signal: abort.signal,
      })
      .catch((error: unknown) => {
        if (!abort.signal.aborted) reason = error instanceof Error ? error.message : String(error);
      })
      // A session that returns has ended; its thread has nothing else to do.
      .finally(end);

    const gone = new Promise<void>((resolve) => port1.once("close", resolve));
    const closed = Promise.all([gone, settled]).then((): SessionEnd => {
      this.#waiting.delete(waiting);
      return { reason };
    });
    return { closed, terminate: end };
  }

  /** Ends every thread and waits until they are gone. */
  async close(): Promise<void> {
    await this.#piscina.destroy();
  }
}
