// News: how this thread hears that there is work, and tells others of it.
// Owns:  the listener, if this node has one.
// N1  What became runnable through this thread is told to our pickers and to the other nodes; a hint that is lost costs a poll.
// N2  What is due later arms a timer, and only for queues that this node serves.

import type { QueueDue } from "#core/protocol/flusher.js";
import type { NodeSettings } from "#core/settings.js";
import { Listener } from "./listener.js";
import { LocalListener } from "./localListener.js";
import type { Picker } from "./picker.js";
import type { Report } from "./report.js";
import type { Timers } from "./timers.js";

export interface NewsOptions {
  settings: NodeSettings;
  report: Report;
  timers: Pick<Timers, "askNow" | "hintDue">;
  /** By queue; none before the node has begun. */
  pickers(): readonly Picker[];
  /** Whether this server process serves one of our flushers: what it tells, we know. */
  isOwnFlusher(processId: number): boolean;
  /** A cancel of a running instance was asked for. */
  onCancel(id: number): void;
  /** Why the listener has no connection; undefined: it has one. */
  onConnection(error: unknown): void;
}

export class News {
  readonly #options: NewsOptions;
  readonly #queues: readonly string[];
  readonly #listener: Listener | LocalListener | undefined;

  constructor(options: NewsOptions) {
    this.#options = options;
    this.#queues = Object.keys(options.settings.queues);
    this.#listener = this.#makeListener();
  }

  start(): void {
    this.#listener?.start();
  }

  async stop(): Promise<void> {
    await this.#listener?.stop();
  }

  /** N1. Rows of these queues have become runnable through this thread. */
  announce(queues: readonly string[]): void {
    for (const queue of queues) this.poke(queue);
    this.#listener?.poke(queues.map((queue) => ({ queue, dueInMs: 0 })));
  }

  /** N2. Rows of these queues are due, now or later. */
  heed(dues: readonly QueueDue[]): void {
    for (const { queue, dueInMs } of dues) {
      if (dueInMs <= 0) this.poke(queue);
      else if (this.#queues.includes(queue)) this.#options.timers.hintDue(queue, dueInMs);
    }
  }

  /** Our own picker of the queue looks, if there is one. */
  poke(queue: string): void {
    this.#pickerOf(queue)?.poke();
  }

  /** Something may have been missed: every picker looks, and the next timers are asked for. */
  lookEverywhere(): void {
    for (const picker of this.#options.pickers()) picker.poke();
    this.#options.timers.askNow();
  }

  #makeListener(): Listener | LocalListener | undefined {
    const { settings, report, isOwnFlusher, onCancel, onConnection } = this.#options;
    const { poke, database } = settings;
    const onPoke = (queue: string, dueInMs: number): void => {
      if (dueInMs <= 0) this.#pickerOf(queue)?.told();
      this.heed([{ queue, dueInMs }]);
    };
    if (poke === "none") return undefined;
    if (poke === "local") return new LocalListener({ schema: database.schema, onPoke, onCancel });
    return new Listener({
      settings: database,
      report,
      onConnection,
      isOwnFlusher,
      onPoke,
      onCancel,
      onCatchUp: () => this.lookEverywhere(),
    });
  }

  #pickerOf(queue: string): Picker | undefined {
    return this.#options.pickers()[this.#queues.indexOf(queue)];
  }
}
