// LocalListener: hears pokes of this process alone (`poke: "local"`): its clients and its other nodes, over a channel that
// all threads of a process share. Nothing of it reaches the database or another process; those find work by their poll.

import { BroadcastChannel } from "node:worker_threads";
import { decodePoke, encodeDues, pokeChannel } from "#core/poke.js";
import type { QueueDue } from "#core/protocol/flusher.js";

export interface LocalListenerOptions {
  schema: string;
  onPoke(queue: string, dueInMs: number): void;
  onCancel(id: number): void;
}

export class LocalListener {
  readonly #options: LocalListenerOptions;
  #channel: BroadcastChannel | undefined;

  constructor(options: LocalListenerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#channel = new BroadcastChannel(pokeChannel(this.#options.schema));
    this.#channel.onmessage = (event) => this.#receive((event as { data: unknown }).data);
    this.#channel.unref();
  }

  /** Tells the process's other nodes; a channel does not hear itself. */
  poke(dues: readonly QueueDue[]): void {
    for (const payload of encodeDues(dues)) this.#channel?.postMessage(payload);
  }

  async stop(): Promise<void> {
    this.#channel?.close();
  }

  #receive(payload: unknown): void {
    const poke = typeof payload === "string" ? decodePoke(payload) : undefined;
    if (poke?.type === "due") this.#options.onPoke(poke.queue, poke.dueInMs);
    else if (poke?.type === "cancel") this.#options.onCancel(poke.id);
  }
}
