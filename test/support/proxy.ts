// Proxy: a TCP proxy between a process and its Postgres, with faults that a real network has and a killed process has not.
// PX1  Each connection is told apart by the application name of its startup message, so that one role's can be cut and the
//      others' not. (An encrypted connection has no name that can be read: "".)
// PX2  A black-holed connection stays open at both ends and carries nothing any more: no FIN, no RST, no answer.
// PX3  Every proxy is closed after the file's last test.

import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export interface Link {
  /** The startup message's application name; "" before it came, or where it cannot be read. */
  readonly name: string;
  /** Nothing passes any more. */
  readonly isBlackHoled: boolean;
}

interface OpenLink {
  name: string;
  isBlackHoled: boolean;
  /** What the server has said since `hold`. */
  held: Buffer[] | undefined;
  near: Socket;
  far: Socket;
}

const open = new Set<TcpProxy>();

const hooks = globalThis as { afterAll?: (hook: () => Promise<void>) => void };
hooks.afterAll?.(async () => {
  await Promise.all([...open].map((proxy) => proxy.close()));
});

export class TcpProxy {
  readonly #server: Server;
  #target: { host: string; port: number };
  readonly #links = new Set<OpenLink>();
  /** Which new connections lead nowhere. */
  #swallows: (name: string) => boolean = () => false;
  #refuses = false;
  #delayMs = 0;

  private constructor(server: Server, target: { host: string; port: number }) {
    this.#server = server;
    this.#target = target;
    server.on("connection", (near) => this.#accept(near));
  }

  /** Starts a proxy in front of the server that the URL names. */
  static async start(url: string): Promise<TcpProxy> {
    const server = createServer({ noDelay: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const proxy = new TcpProxy(server, targetOf(url));
    open.add(proxy);
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The URL with this proxy in the server's place. */
  url(url: string): string {
    const own = new URL(url);
    own.host = `127.0.0.1:${this.port}`;
    return own.href;
  }

  /** New connections go to another server, as a service's address moves at a failover. */
  retarget(url: string): void {
    this.#target = targetOf(url);
  }

  /** The open connections. */
  get links(): readonly Link[] {
    return [...this.#links];
  }

  /** PX2, of the open connections with such a name ("gen-durable listener"); answers how many there were. */
  blackHole(isMeant: (name: string) => boolean = () => true): number {
    const meant = [...this.#links].filter((link) => !link.isBlackHoled && isMeant(link.name));
    for (const link of meant) {
      link.isBlackHoled = true;
      link.near.pause();
      link.far.pause();
    }
    return meant.length;
  }

  /** New connections with such a name lead nowhere either, until `heal`. */
  swallow(isMeant: (name: string) => boolean = () => true): void {
    this.#swallows = isMeant;
  }

  /** Cuts the open connections with such a name, by RST at both ends; answers how many there were. */
  cut(isMeant: (name: string) => boolean = () => true): number {
    const meant = [...this.#links].filter(({ name }) => isMeant(name));
    for (const { near, far } of meant) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
    return meant.length;
  }

  /** What the server says, its farewell among it, is kept back until `letGo`. */
  hold(): void {
    for (const link of this.#links) link.held = [];
  }

  /** What was kept back goes out in one piece, each connection's for itself. */
  letGo(): void {
    for (const link of this.#links) {
      if (link.held === undefined) continue;
      const bytes = Buffer.concat(link.held);
      link.held = undefined;
      link.near.write(bytes);
      if (link.far.readableEnded) link.near.end();
    }
  }

  /** New connections are closed at once, until `heal`. */
  refuse(): void {
    this.#refuses = true;
  }

  /** Everything that passes from now on takes so much longer, in each direction. */
  delay(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  /** New connections work again. What was black-holed stays so. */
  heal(): void {
    this.#swallows = () => false;
    this.#refuses = false;
    this.#delayMs = 0;
  }

  async close(): Promise<void> {
    if (!open.delete(this)) return;
    this.cut();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #accept(near: Socket): void {
    if (this.#refuses) {
      near.resetAndDestroy();
      return;
    }
    const far = connect({ ...this.#target, noDelay: true });
    const link: OpenLink = { name: "", isBlackHoled: false, held: undefined, near, far };
    this.#links.add(link);
    const end = (): void => {
      if (near.destroyed && far.destroyed) this.#links.delete(link);
      // PX2: the other end of a black-holed connection learns nothing.
      if (link.isBlackHoled || link.held !== undefined) return;
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) {
      socket.on("error", () => undefined);
      socket.on("close", end);
    }
    near.on("data", (bytes: Buffer) => {
      if (link.name === "") {
        link.name = applicationName(bytes);
        if (this.#swallows(link.name)) {
          link.isBlackHoled = true;
          near.pause();
        }
      }
      this.#pass(link, far, bytes);
    });
    far.on("data", (bytes: Buffer) => {
      if (link.held === undefined) this.#pass(link, near, bytes);
      else link.held.push(bytes);
    });
    near.on("end", () => this.#end(link, far));
    far.on("end", () => this.#end(link, near));
  }

  #pass(link: OpenLink, to: Socket, bytes: Buffer): void {
    if (link.isBlackHoled) return;
    if (this.#delayMs === 0) {
      to.write(bytes);
      return;
    }
    setTimeout(() => {
      if (!link.isBlackHoled && !to.destroyed) to.write(bytes);
    }, this.#delayMs);
  }

  #end(link: OpenLink, to: Socket): void {
    if (!link.isBlackHoled && link.held === undefined) to.end();
  }
}

function targetOf(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port || "5432") };
}

/** PX1: the startup message is a list of names and values, each ended by a NUL. */
function applicationName(bytes: Buffer): string {
  return /application_name\0([^\0]*)\0/.exec(bytes.toString("latin1"))?.[1] ?? "";
}
