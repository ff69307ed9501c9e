// Keeper process: holds the run's Postgres, and knows the run's nodes. When its stdin ends, however the harness ended, it
// kills the nodes, stopped ones too, and stops the server. One line of JSON in, one out.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Server } from "../test/support/server.js";
import type { KeeperAnswer, KeeperRequest } from "./keeper.js";

const RESTART_TRIES_MAX = 100;
const RESTART_PAUSE_MS = 100;

process.stdout.on("error", () => undefined);
const pids = new Set<number>();
const server = await Server.start({
  settings: {
    autovacuum: "on",
    // The checker puts changes into the order in which they became true.
    track_commit_timestamp: "on",
    // Whoever is gone without a word is noticed in seconds.
    tcp_keepalives_idle: 5,
    // Deadlocks are told before the engine's lock timeouts part them.
    deadlock_timeout: "50ms",
    max_connections: 200,
  },
});
say({ url: server.url(), logFile: server.logFile });

let working: Promise<void> = Promise.resolve();
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  working = working.then(() => obey(JSON.parse(line) as KeeperRequest));
});
lines.on("close", () => void end());
process.on("SIGTERM", () => void end());

async function obey(request: KeeperRequest): Promise<void> {
  switch (request.do) {
    case "watch":
      pids.add(request.pid);
      return;
    case "forget":
      pids.delete(request.pid);
      return;
    case "crash":
      await server.kill(request.signal);
      return say({});
    case "restart":
      await restart();
      return say({});
  }
}

/** The last server's children may still hold its shared memory. */
async function restart(): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await server.restart();
    } catch (error) {
      if (tries === RESTART_TRIES_MAX) throw error;
      await sleep(RESTART_PAUSE_MS);
    }
  }
}

async function end(): Promise<void> {
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }
  await server.stop();
  process.exit(0);
}

function say(answer: KeeperAnswer): void {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
