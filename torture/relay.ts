// Relay: a TCP proxy between a node and Postgres that can lose what it carries.
// PX1  Healthy, it passes bytes on in order and half-closes as its ends do.
// PX2  A black-holed connection stays open on the node's side and answers nothing: no FIN, no RST. Its server side is
//      closed after a while, as a server's own timeouts would.

import { createConnection, createServer, type Server, type Socket } from "node:net";

interface Pair {
  client: Socket;
  server: Socket;
  isBlackHole: boolean;
}

/** How the next COMMIT that passes is lost: after the server has it, or before. */
export type CutAt = "before" | "after";

const COMMIT = Buffer.from("COMMIT");

export class Relay {
  readonly #server: Server;
  readonly #target: { host: string; port: number };
  readonly #pairs = new Set<Pair>();
  #cuts: CutAt[] = [];
  #cutCount = 0;

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#server = createServer((client) => this.#relay(client));
  }

  static async start(target: { host: string; port: number }): Promise<Relay> {
    const relay = new Relay(target);
    await new Promise<void>((resolve) => relay.#server.listen(0, "127.0.0.1", resolve));
    return relay;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the relay does not listen");
    return address.port;
  }

  /** How many commits were cut. */
  get cutCount(): number {
    return this.#cutCount;
  }

  /** Resets some of the open connections, or all. */
  reset(share = 1, chance: () => number = () => 0): number {
    const chosen = [...this.#pairs].filter(() => chance() < share);
    for (const { client, server } of chosen) {
      client.resetAndDestroy();
      server.destroy();
    }
    return chosen.length;
  }

  /** The next commits that pass lose their connection. */
  armCut(at: CutAt, count: number): void {
    this.#cuts = Array.from({ length: count }, () => at);
  }

  disarm(): void {
    this.#cuts = [];
  }

  /** Open connections fall silent; new ones work. Their server sides close after `serverMs`. */
  blackHole(share: number, chance: () => number, serverMs: number): number {
    const chosen = [...this.#pairs].filter((pair) => !pair.isBlackHole && chance() < share);
    for (const pair of chosen) {
      pair.isBlackHole = true;
      setTimeout(() => pair.server.destroy(), serverMs).unref();
    }
    return chosen.length;
  }

  async close(): Promise<void> {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #relay(client: Socket): void {
    const server = createConnection(this.#target);
    const pair: Pair = { client, server, isBlackHole: false };
    this.#pairs.add(pair);
    client.setNoDelay(true);
    server.setNoDelay(true);
    client.on("data", (bytes) => {
      if (pair.isBlackHole || this.#cutsCommit(pair, bytes)) return;
      if (!server.write(bytes)) {
        client.pause();
        server.once("drain", () => client.resume());
      }
    });
    server.on("data", (bytes) => {
      if (pair.isBlackHole) return;
      if (!client.write(bytes)) {
        server.pause();
        client.once("drain", () => server.resume());
      }
    });
    client.on("end", () => server.end());
    server.on("end", () => {
      if (!pair.isBlackHole) client.end();
    });
    for (const socket of [client, server]) socket.on("error", () => undefined);
    client.on("close", () => {
      this.#pairs.delete(pair);
      server.destroy();
    });
    server.on("close", () => {
      if (!pair.isBlackHole) client.destroy();
    });
  }

  #cutsCommit(pair: Pair, bytes: Buffer): boolean {
    if (this.#cuts.length === 0 || !bytes.includes(COMMIT)) return false;
    const at = this.#cuts.pop();
    this.#cutCount++;
    if (at === "after") {
      pair.server.write(bytes);
      // The server gets its bytes and commits; the answer finds nobody.
      pair.server.end();
    } else pair.server.destroy();
    pair.client.resetAndDestroy();
    return true;
  }
}
