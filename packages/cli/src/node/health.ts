// Health: what an orchestrator asks of a node over HTTP. /healthz: the process turns. /readyz: it does its work, that is,
// it has started and does not drain, all executor threads are ready and the database answers. /metrics: counters in Prometheus's text format.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { UsageError } from "#core/errors.js";

export interface NodeHealth {
  executorsReady: number;
  executorsWanted: number;
  databaseUp: boolean;
  /** It takes no work yet: it waits for its database, migrates, or loads its modules. */
  isStarting: boolean;
  isDraining: boolean;
  /** Counts since the start, by metric name without its prefix. */
  counters: Readonly<Record<string, number>>;
}

export interface HealthServer {
  /** Where it listens, as `http://host:port`. */
  url: string;
  close(): Promise<void>;
}

export function isReady(health: NodeHealth): boolean {
  const { databaseUp, isStarting, isDraining, executorsReady, executorsWanted } = health;
  return databaseUp && !isStarting && !isDraining && executorsReady >= executorsWanted;
}

/** Serves the node's health on `host:port`. @throws when the port cannot be taken. */
export async function serveHealth(options: {
  host: string;
  port: number;
  read(): NodeHealth;
}): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const health = options.read();
    const path = (request.url ?? "/").split("?")[0];
    const answer = (status: number, text: string): void => {
      response.writeHead(status, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
      response.end(text);
    };
    switch (path) {
      case "/healthz":
        return answer(200, "ok\n");
      case "/readyz":
        return answer(isReady(health) ? 200 : 503, `${describe(health)}\n`);
      case "/metrics":
        return answer(200, exposition(health));
      default:
        return answer(404, "try /healthz, /readyz or /metrics\n");
    }
  });
  await listen(server, options.port, options.host);
  const { address, port, family } = server.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(explainListen(error, port, host)));
    server.listen(port, host, () => {
      server.removeAllListeners("error");
      // A broken client connection is nobody's business.
      server.on("error", () => undefined);
      resolve();
    });
  });
}

function explainListen(error: NodeJS.ErrnoException, port: number, host: string): Error {
  const place = `${host}:${port}`;
  switch (error.code) {
    case "EADDRINUSE":
      return new UsageError(
        "PORT_TAKEN",
        `--port ${port}: something else listens on ${place} already; choose another port, or 0 for a free one`,
        { cause: error },
      );
    case "EACCES":
      return new UsageError("PORT_TAKEN", `--port ${port}: this user may not listen on ${place}`, {
        cause: error,
      });
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return new UsageError("PORT_TAKEN", `--host ${host}: this machine has no such address`, {
        cause: error,
      });
    default:
      return error;
  }
}

function describe(health: NodeHealth): string {
  const parts = [
    `executors ${health.executorsReady}/${health.executorsWanted}`,
    `database ${health.databaseUp ? "up" : "down"}`,
  ];
  if (health.isStarting) parts.push("starting");
  if (health.isDraining) parts.push("draining");
  return parts.join(", ");
}

function exposition(health: NodeHealth): string {
  const lines: string[] = [];
  const gauge = (name: string, value: number): void => {
    lines.push(`# TYPE gen_durable_${name} gauge`, `gen_durable_${name} ${value}`);
  };
  gauge("ready", isReady(health) ? 1 : 0);
  gauge("database_up", health.databaseUp ? 1 : 0);
  gauge("executors_ready", health.executorsReady);
  gauge("executors_wanted", health.executorsWanted);
  for (const [name, value] of Object.entries(health.counters)) {
    lines.push(`# TYPE gen_durable_${name}_total counter`, `gen_durable_${name}_total ${value}`);
  }
  return `${lines.join("\n")}\n`;
}
