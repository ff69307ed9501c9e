// Poker: the client's side of the poke. The payloads of a call travel in the very statement that writes its rows; what
// the window holds back follows once they are committed.

import { BroadcastChannel } from "node:worker_threads";
import { monotonicMs } from "../clock.js";
import { encodeDues, encodePoke, PokeGate, pokeChannel } from "../poke.js";
import type { QueueDue } from "../protocol/flusher.js";
import type { NodeSettings } from "../settings.js";
import type { Querier, Session } from "./session.js";
import { arrayText, type TextRow } from "./text.js";

export type PokeTransport = NodeSettings["poke"];

export interface PokePlan {
  /** What the statement that writes the rows sends. */
  payloads: readonly string[];
  /** The statement has ended. `wrote`: it has written rows, and has sent the payloads. */
  ended(wrote: boolean): void;
}

const NO_POKE: PokePlan = { payloads: [], ended: () => undefined };

export class Poker {
  readonly channel: string;
  readonly #transport: PokeTransport;
  readonly #session: Session;
  readonly #gate: PokeGate;
  #broadcast: BroadcastChannel | undefined;
  #sending: Promise<unknown> = Promise.resolve();

  constructor(session: Session, transport: PokeTransport) {
    this.channel = pokeChannel(session.schema);
    this.#session = session;
    this.#transport = transport;
    this.#gate = new PokeGate({ send: (payloads) => this.#send(payloads), nowMs: monotonicMs });
  }

  /** What to send for rows that a statement is about to write. */
  plan(dues: readonly QueueDue[], options: { inTx: boolean; enabled: boolean }): PokePlan {
    if (!options.enabled || this.#transport === "none") return NO_POKE;
    // Nobody knows when the caller commits: there the poke rides along, once a statement, whatever the window says.
    const gate = options.inTx ? new PokeGate({ send: () => undefined, nowMs: () => 0 }) : this.#gate;
    const { now, later } = gate.sort(dues);
    if (options.inTx)
      return this.#isPostgres ? { payloads: encodeDues(now), ended: () => undefined } : NO_POKE;
    return {
      payloads: this.#isPostgres ? encodeDues(now) : [],
      ended: (wrote) => {
        if (!wrote) return this.#gate.unsent(now);
        if (!this.#isPostgres && now.length > 0) this.#send(encodeDues(now));
        this.#gate.owe(later);
      },
    };
  }

  /**
   * For a statement that finds out by itself which queues have work: the channel it pokes on, or null when it is not to
   * poke, and the queues that it leaves out because their window is closed.
   */
  inStatement(options: { inTx: boolean; enabled: boolean }): [channel: string | null, heldBack: string] {
    if (!options.enabled || !this.#isPostgres) return [null, "{}"];
    return [this.channel, arrayText(options.inTx ? [] : this.#gate.closedQueues())];
  }

  /** What such a statement found: `queue` where there is work, and whether it `poked` it. */
  found(rows: readonly TextRow[], options: { inTx: boolean }): void {
    if (options.inTx || this.#transport === "none") return;
    const queues = new Map(rows.map(({ queue, poked }) => [queue, poked === "yes"]));
    for (const [queue, isPoked] of queues) {
      if (queue === null || queue === undefined) continue;
      if (isPoked) this.#gate.sent({ queue, dueInMs: 0 });
      else this.#pokeLater(queue);
    }
  }

  /** Whether statements poke by themselves. */
  get #isPostgres(): boolean {
    return this.#transport === "postgres";
  }

  #pokeLater(queue: string): void {
    const { now, later } = this.#gate.sort([{ queue, dueInMs: 0 }]);
    if (now.length > 0) this.#send(encodeDues(now));
    this.#gate.owe(later);
  }

  /** The pokes of queues in which a rare deed (a cancel, a retry) has left work; no window holds them back. */
  payloadsOf(queues: readonly (string | null | undefined)[]): string[] {
    const named = queues.filter((queue) => queue !== null && queue !== undefined);
    return encodeDues([...new Set(named)].map((queue) => ({ queue, dueInMs: 0 })));
  }

  /** Sends payloads with a transaction of ours, where the transport can. */
  async sendWithin(querier: Querier, payloads: readonly string[]): Promise<void> {
    if (payloads.length > 0 && this.#isPostgres)
      await querier.run("client/poke_queues", [this.channel, arrayText(payloads)]);
  }

  /** Sends them after its commit, where it cannot. */
  sendAfter(payloads: readonly string[]): void {
    if (payloads.length > 0 && this.#transport === "local") this.#send(payloads);
  }

  /** Asks the node that runs an instance's step to abort it. */
  cancelPayload(id: number): string {
    return encodePoke({ type: "cancel", id });
  }

  /** Sends what is held back and waits for it. */
  async close(): Promise<void> {
    this.#gate.close();
    await this.#sending;
    this.#broadcast?.close();
  }

  #send(payloads: readonly string[]): void {
    if (this.#transport === "local") {
      // Reaches every thread of this process and nothing else.
      this.#broadcast ??= new BroadcastChannel(this.channel);
      this.#broadcast.unref();
      for (const payload of payloads) this.#broadcast.postMessage(payload);
      return;
    }
    // A lost poke costs one poll.
    const sent = this.#session
      .run("client/poke_queues", [this.channel, arrayText(payloads)])
      .catch(() => undefined);
    this.#sending = Promise.all([this.#sending, sent]);
  }
}
