// Server process: holds the run's Postgres, in a session of its own so that Ctrl-C does not reach it, and stops it
// when its stdin ends. Whoever started it may end in any way, SIGKILL included: the pipe ends with it.
// Order: GEN_DURABLE_TEST_DATABASE_URL, a container where a Docker engine answers, the embedded binaries.
// Prints one line of JSON, a ServerFacts, when the server is ready.

import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Server } from "./server.js";

export interface ServerFacts {
  kind: "url" | "container" | "embedded";
  /** The URL of the maintenance database. */
  url: string;
  /** Where the server logs to; null where that cannot be read. */
  logFile: string | null;
}

interface Held {
  facts: ServerFacts;
  stop(): Promise<void>;
}

const DOCKER_ANSWER_MS = 500;

// Whoever started us may be gone already: that is for stdin's end to tell, not for a broken pipe.
process.stdout.on("error", () => undefined);

const held = await obtain();
const stop = (): void => void held.stop().finally(() => process.exit(0));
process.once("SIGTERM", stop);
process.stdin.once("end", stop).resume();
console.log(JSON.stringify(held.facts));

async function obtain(): Promise<Held> {
  const url = process.env.GEN_DURABLE_TEST_DATABASE_URL;
  if (url !== undefined && url !== "") {
    const logFile = process.env.GEN_DURABLE_TEST_DATABASE_LOG ?? null;
    return { facts: { kind: "url", url, logFile }, stop: async () => undefined };
  }
  if (process.env.GEN_DURABLE_TEST_POSTGRES_BIN === undefined && (await dockerAnswers())) {
    const container = await startContainer().catch((error: unknown) => {
      console.error(`no container, the embedded Postgres is used: ${String(error)}`);
      return undefined;
    });
    if (container !== undefined) return container;
  }
  const server = await Server.start();
  return {
    facts: { kind: "embedded", url: server.url(), logFile: server.logFile },
    stop: () => server.stop(),
  };
}

async function startContainer(): Promise<Held> {
  const { GenericContainer, Wait } = await import("testcontainers");
  const folder = mkdtempSync(join(tmpdir(), "gen-durable-test-"));
  const logFile = join(folder, "server.log");
  const log = createWriteStream(logFile);
  const container = await new GenericContainer("postgres:18-alpine")
    .withEnvironment({ POSTGRES_HOST_AUTH_METHOD: "trust" })
    .withCommand([
      ...["postgres", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=300"],
      ...["-c", "log_line_prefix=%m [%p] %q%a@%d ", "-c", "log_lock_waits=on"],
    ])
    .withExposedPorts(5432)
    // The image starts a server for its initialisation first; the second message is the real one.
    .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
    .withStartupTimeout(60_000)
    .withLogConsumer((stream) => stream.pipe(log))
    .start();
  const url = `postgres://postgres@${container.getHost()}:${container.getMappedPort(5432)}/postgres`;
  return {
    facts: { kind: "container", url, logFile },
    stop: async () => {
      await container.stop();
      log.end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Whether a Docker engine listens on its socket or on DOCKER_HOST. */
function dockerAnswers(): Promise<boolean> {
  const host = process.env.DOCKER_HOST;
  const target =
    host?.startsWith("tcp://") === true
      ? { host: new URL(host).hostname, port: Number(new URL(host).port || "2375") }
      : {
          path: host?.startsWith("unix://") === true ? host.slice("unix://".length) : "/var/run/docker.sock",
        };
  return new Promise((resolve) => {
    const socket = createConnection(target);
    const answer = (answers: boolean) => () => {
      socket.destroy();
      resolve(answers);
    };
    socket.setTimeout(DOCKER_ANSWER_MS, answer(false));
    socket.once("connect", () => {
      socket.write("GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n");
    });
    socket.once("data", (bytes) => answer(bytes.toString("latin1").startsWith("HTTP/1.1 200"))());
    socket.once("error", answer(false));
    socket.once("close", answer(false));
  });
}
