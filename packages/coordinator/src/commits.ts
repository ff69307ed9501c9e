// Commits: what the flusher threads say, and what this thread knows of them by it.
// Owns:  whether each flusher stands, has its connection, and has drained.
// CM1  A row is let go only when a flusher says that it is committed, returned or lost; one that runs ahead stays.
// CM2  Nothing is claimed for a flusher that has no connection: it could not be committed.

import { unreachable } from "#core/errors.js";
import type { FlushedRow, FromFlusher, QueueDue } from "#core/protocol/flusher.js";
import { type ContinuedOptions, takeContinued } from "./continued.js";
import type { Report } from "./report.js";

export interface CommitsOptions {
  count: number;
  report: Report;
  continued: ContinuedOptions;
  release(rows: readonly FlushedRow[]): void;
  heed(dues: readonly QueueDue[]): void;
  /** An await's deadline was committed. */
  hintDeadline(inMs: number): void;
  steps(message: Extract<FromFlusher, { type: "steps" }>): void;
  onReady(): void;
  /** Why a flusher has no connection; undefined: it has one. */
  onConnection(flusher: number, error: unknown): void;
}

export class Commits {
  readonly #options: CommitsOptions;
  readonly #isUp: boolean[];
  /** By flusher: the server process of its connection. */
  readonly #processes: (number | undefined)[] = [];
  #readyCount = 0;
  #drainedCount = 0;
  #onDrained: (() => void) | undefined;

  constructor(options: CommitsOptions) {
    this.#options = options;
    this.#isUp = Array.from({ length: options.count }, () => true);
  }

  get areReady(): boolean {
    return this.#readyCount >= this.#options.count;
  }

  get areUp(): boolean {
    return this.#isUp.every((isUp) => isUp);
  }

  /** CM2. */
  canCommit(flusher: number): boolean {
    return this.#isUp[flusher] === true;
  }

  isOwnProcess(processId: number): boolean {
    return this.#processes.includes(processId);
  }

  /** Resolves when every flusher has drained. */
  async drained(): Promise<void> {
    if (this.#drainedCount >= this.#options.count) return;
    await new Promise<void>((resolve) => {
      this.#onDrained = resolve;
    });
  }

  /** CM1. */
  receive(flusher: number, message: FromFlusher): void {
    const { report, release, heed, hintDeadline, continued, steps } = this.#options;
    switch (message.type) {
      case "ready":
        this.#readyCount++;
        this.#options.onReady();
        return;
      case "session":
        this.#processes[flusher] = message.processId;
        return;
      case "flushed":
        release(message.committed);
        release(message.stale);
        if (message.continued.length > 0) takeContinued(message.continued, continued);
        heed(message.pokes);
        if (message.deadlineInMs !== null) hintDeadline(message.deadlineInMs);
        return;
      case "returned":
        release(message.rows);
        heed(message.pokes);
        return;
      case "steps":
        steps(message);
        return;
      case "event":
        report.forward(message.name, message.fields);
        return;
      case "log":
        report.log(message.level, message.message, message.fields);
        return;
      case "database":
        this.#isUp[flusher] = message.up;
        this.#options.onConnection(flusher, message.up ? undefined : message.error);
        return;
      case "drained":
        this.#drainedCount++;
        if (this.#drainedCount >= this.#options.count) this.#onDrained?.();
        return;
      default:
        unreachable(message);
    }
  }
}
