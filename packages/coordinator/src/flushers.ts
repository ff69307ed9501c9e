// Flushers: the flusher threads as the coordinator sees them: which queue goes to which, what is sent there, what comes back.
// Owns:  the worker threads. A flusher that ends unexpectedly ends the node (crash-only).
// FL1  Ports of a session are attached before its first row, and its end is told to every flusher: each drains its own port.

import { type MessagePort, Worker } from "node:worker_threads";
import type { LedgerMemory } from "#core/ledger.js";
import type { FlusherTask, FromFlusher, LostRow, ToFlusher } from "#core/protocol/flusher.js";
import type { FlusherSettings, NodeSettings } from "#core/settings.js";
import { chainTrustMs } from "./lease.js";

/** Without specs: one flusher a queue, at most so many; each is a thread and a connection. */
const DEFAULT_FLUSHERS_MAX = 4;
const DEFAULT_MAX_BATCH = 100;
const DEFAULT_MAX_DELAY_MS = 100;

export interface FlusherPlan {
  specs: readonly FlusherSettings[];
  /** For each queue, by index: its flusher. */
  flusherOfQueue: readonly number[];
}

/** Routes each queue to the first flusher that names it; without specs, one a queue, and further queues share. */
export function planFlushers(settings: NodeSettings): FlusherPlan {
  const queues = Object.keys(settings.queues);
  if (settings.flushers.length > 0) {
    const flusherOfQueue = queues.map((queue) =>
      settings.flushers.findIndex((spec) => spec.queues === "all" || spec.queues.includes(queue)),
    );
    return { specs: settings.flushers, flusherOfQueue: flusherOfQueue.map((index) => Math.max(index, 0)) };
  }
  const count = Math.min(queues.length, DEFAULT_FLUSHERS_MAX);
  const specs = Array.from({ length: count }, (_, flusher) => ({
    queues: queues.filter((_, index) => index % count === flusher),
    maxBatch: DEFAULT_MAX_BATCH,
    maxDelayMs: DEFAULT_MAX_DELAY_MS,
  }));
  return { specs, flusherOfQueue: queues.map((_, index) => index % count) };
}

export interface FlusherEvents {
  message(flusher: number, message: FromFlusher): void;
  fatal(error: unknown): void;
}

export class Flushers {
  readonly #workers: readonly Worker[];
  readonly #events: FlusherEvents;
  #isClosing = false;

  constructor(options: {
    plan: FlusherPlan;
    settings: NodeSettings;
    node: string;
    ledger: LedgerMemory;
    events: FlusherEvents;
  }) {
    this.#events = options.events;
    this.#workers = options.plan.specs.map((spec, flusher) =>
      this.#spawn({
        flusher,
        database: options.settings.database,
        ledger: options.ledger,
        maxBatch: spec.maxBatch,
        maxDelayMs: spec.maxDelayMs,
        leaseTtlMs: options.settings.leaseTtlMs,
        trustMs: chainTrustMs(options.settings.leaseTtlMs),
        node: options.node,
        poke: options.settings.poke,
      }),
    );
  }

  get count(): number {
    return this.#workers.length;
  }

  /** FL1. */
  attach(thread: number, session: number, ports: readonly MessagePort[]): void {
    for (const [flusher, port] of ports.entries()) {
      this.#send(flusher, { type: "attach", thread, session, port }, [port]);
    }
  }

  /** FL1: also flushers of which no row was in the thread. */
  lost(thread: number, session: number, rowsOf: (flusher: number) => readonly LostRow[]): void {
    for (let flusher = 0; flusher < this.#workers.length; flusher++) {
      this.#send(flusher, { type: "lost", thread, session, rows: rowsOf(flusher) });
    }
  }

  handBack(flusher: number, rows: readonly LostRow[]): void {
    if (rows.length > 0) this.#send(flusher, { type: "handBack", rows });
  }

  /** A connection was gone without a word: theirs may be too. */
  suspect(): void {
    for (let flusher = 0; flusher < this.#workers.length; flusher++) this.#send(flusher, { type: "suspect" });
  }

  /** Each answers "drained" when everything it holds is committed or given back. */
  drain(): void {
    this.#isClosing = true;
    for (let flusher = 0; flusher < this.#workers.length; flusher++) this.#send(flusher, { type: "drain" });
  }

  /** Ends the threads, whatever they still hold. */
  async terminate(): Promise<void> {
    this.#isClosing = true;
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  #send(flusher: number, message: ToFlusher, transfer: MessagePort[] = []): void {
    this.#workers[flusher]?.postMessage(message, transfer);
  }

  #spawn(task: FlusherTask): Worker {
    const worker = new Worker(new URL(import.meta.resolve("#flusher/thread.js")), {
      name: `flusher ${task.flusher}`,
      workerData: task,
    });
    worker.on("message", (message: FromFlusher) => this.#events.message(task.flusher, message));
    worker.on("error", (error) => this.#events.fatal(error));
    worker.on("exit", (code) => {
      if (!this.#isClosing)
        this.#events.fatal(new Error(`flusher thread ${task.flusher} ended with code ${code}`));
    });
    return worker;
  }
}
