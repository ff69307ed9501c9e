// Fleet: the nodes of a run. Each berth has a relay of its own and at most one process; a process that ends by itself is
// replaced, as an operator's supervisor would do.
// FL1  Every process is watched by the keeper from its start to its end.
// FL2  A process's end is noted in the ledger at once.
// FL3  Nodes that cannot start are not started for ever: the run ends, with what the last one said.

import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "./engine.js";
import type { Keeper } from "./keeper.js";
import type { Ledger } from "./ledger.js";
import { NodeProcess } from "./nodeProcess.js";
import { Relay } from "./relay.js";
import { configOf } from "./settings.js";

const REPLACE_AFTER_MS = 300;
/** FL3: starts in a row, on all berths, of which none came to work. Faults of nodes and of Postgres cost some. */
const FAILED_STARTS_MAX = 40;

export interface FleetOptions {
  seed: number;
  engine: Pick<Engine, "bin" | "machines">;
  keeper: Keeper;
  ledger: Ledger;
  /** The database's own URL; nodes reach it through their proxies. */
  url: string;
  folder: string;
  journal: string;
  /** FL3; by default 40. */
  failedStartsMax?: number;
}

/** A place for a node. */
export class Berth {
  readonly name: string;
  readonly relay: Relay;
  node: NodeProcess | undefined;
  /** A fault is at work here. */
  isBusy = false;
  /** Nobody is to be started here. */
  isClosed = false;

  constructor(name: string, relay: Relay) {
    this.name = name;
    this.relay = relay;
  }
}

export class Fleet {
  readonly #options: FleetOptions;
  readonly berths: Berth[] = [];
  generation = 0;
  #boots = 0;
  #stopping = false;
  #failedStarts = 0;
  /** FL3: why no more nodes are started. */
  failure: Error | undefined;
  /** What processes that ended by themselves said last. */
  readonly ownEnds: string[] = [];
  /** Log records that no fault explains. */
  readonly brokenInvariants: string[] = [];

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  /** Opens a berth and starts a node in it. */
  async open(name: string, skewMs = 0): Promise<Berth> {
    const { hostname, port } = new URL(this.#options.url);
    const berth = new Berth(name, await Relay.start({ host: hostname, port: Number(port) }));
    this.berths.push(berth);
    this.start(berth, skewMs);
    return berth;
  }

  /** Starts a node of the current generation. Its `ready` tells when it works. */
  start(berth: Berth, skewMs = 0): NodeProcess {
    const { seed, engine, keeper, url, folder, journal } = this.#options;
    const through = new URL(url);
    through.port = String(berth.relay.port);
    const node = new NodeProcess({
      bin: engine.bin,
      folder,
      name: `${berth.name}-${++this.#boots}`,
      config: {
        ...configOf(seed, this.generation),
        fsms: engine.machines,
        instance: berth.name,
        database: { url: through.href },
      },
      workers: 2,
      skewMs,
      env: { TORTURE_AUDIT_URL: url, TORTURE_JOURNAL: journal },
    });
    keeper.watch(node.pid);
    berth.node = node;
    void node.ready.then(() => {
      if (node.isReady) this.#failedStarts = 0;
    });
    void node.exited.then(() => this.#ended(berth, node));
    return node;
  }

  /** Ends the node of a berth for good, by a signal. */
  async stop(berth: Berth, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const { node } = berth;
    berth.node = undefined;
    node?.signal(signal);
    await node?.exited;
  }

  /** Ends the berth with its node. */
  async close(berth: Berth, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    berth.isClosed = true;
    await this.stop(berth, signal);
    await berth.relay.close();
    this.berths.splice(this.berths.indexOf(berth), 1);
  }

  /** Every berth has a node that works. @throws when nodes cannot start (FL3) */
  async settle(): Promise<void> {
    for (;;) {
      if (this.failure !== undefined) throw this.failure;
      const waiting = this.berths.filter(({ node }) => node === undefined || !node.isReady || node.hasExited);
      if (waiting.length === 0) return;
      for (const berth of waiting) if (berth.node === undefined) this.start(berth);
      await sleep(100);
    }
  }

  async stopAll(): Promise<void> {
    this.#stopping = true;
    await Promise.all([...this.berths].map((berth) => this.close(berth, "SIGKILL")));
  }

  #ended(berth: Berth, node: NodeProcess): void {
    this.#options.ledger.ended(node.pid);
    this.#options.keeper.forget(node.pid);
    this.brokenInvariants.push(
      ...node.log.split("\n").filter((line) => /ERR_GEN_DURABLE_INVARIANT/.test(line)),
    );
    if (berth.node !== node || this.#stopping || berth.isClosed) return;
    this.ownEnds.push(`${node.name} (status ${node.exitCode}): ${node.lastWords}`);
    berth.node = undefined;
    if (!node.isReady && ++this.#failedStarts >= (this.#options.failedStartsMax ?? FAILED_STARTS_MAX)) {
      this.failure ??= new Error(
        `${this.#failedStarts} nodes in a row could not start; the last one, ${node.name}, ended with status ${node.exitCode}: ${node.lastWords}`,
      );
      return;
    }
    setTimeout(() => {
      if (berth.node === undefined && !berth.isClosed && !this.#stopping && !berth.isBusy) this.start(berth);
    }, REPLACE_AFTER_MS);
  }
}
