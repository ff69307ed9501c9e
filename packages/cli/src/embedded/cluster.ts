// Cluster: makes the home of an embedded server, once.
// C1  Everything is made in a temporary folder and renamed: a home is whole or not there.
// C2  The rename is the referee. Whoever loses throws his own away; waiting for another maker only saves work.

import { randomBytes, randomInt } from "node:crypto";
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { UsageError } from "#core/errors.js";
import type { Binaries } from "./binaries.js";
import { type Home, isMade, prepareParent } from "./home.js";
import { runTool } from "./tool.js";

/** Settings of the cluster; everything that makes commits durable stays as Postgres ships it. */
const SERVER_SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "200",
  shared_buffers: "128MB",
  password_encryption: "scram-sha-256",
};

const TEMPORARY = /^postgres\.new-(\d+)-[0-9a-f]+$/;
/** A maker that takes longer than this is not waited for. */
const MAKER_PATIENCE_MS = 60_000;
const MAKER_POLL_MS = 50;
/** Below the range from which systems take the ports of outgoing connections. */
const PORTS = { from: 15_000, to: 32_000, attempts: 200 };

/** Makes the home unless it is there. @throws UsageError when it is of another Postgres version, or cannot be made. */
export async function ensureCluster(home: Home, binaries: Binaries): Promise<void> {
  if (!isMade(home)) {
    prepareParent(home);
    const maker = `postgres.new-${process.pid}-${randomBytes(6).toString("hex")}`;
    const temporary = join(home.parent, maker);
    mkdirSync(temporary, { mode: 0o700 });
    try {
      await waitForEarlierMaker(home, maker);
      if (!isMade(home)) await make(home, binaries, temporary);
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
  }
  requireMajor(home, binaries);
}

async function make(home: Home, binaries: Binaries, temporary: string): Promise<void> {
  const passwordFile = join(temporary, "password");
  writeFileSync(passwordFile, `${randomBytes(24).toString("hex")}\n`, { mode: 0o600 });
  writeFileSync(join(temporary, "port"), `${await findFreePort()}\n`, { mode: 0o644 });
  if (home.account !== undefined) {
    for (const path of [passwordFile, join(temporary, "port"), temporary])
      chownSync(path, home.account.uid, home.account.gid);
  }
  const settings = Object.entries(SERVER_SETTINGS).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const { status, output } = await runTool({
    file: binaries.initdb,
    args: [
      ...["-D", join(temporary, "data"), "-U", "postgres", `--pwfile=${passwordFile}`, "-A", "scram-sha-256"],
      ...["-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"],
      ...["--no-instructions", ...settings],
    ],
    cwd: temporary,
    account: home.account,
  });
  if (status !== 0) {
    throw new UsageError(
      "EMBEDDED_INITDB",
      `Postgres could not create a database in ${temporary}${home.account === undefined ? "" : ` as ${home.account.name}`}:\n${output}`,
    );
  }
  try {
    renameSync(temporary, home.path);
  } catch (error) {
    if (!isMade(home)) throw error;
  }
}

/** Waits while a maker with a lesser name, whose process lives, is at work. Removes what dead ones have left. */
async function waitForEarlierMaker(home: Home, own: string): Promise<void> {
  const startMs = performance.now();
  while (!isMade(home) && performance.now() - startMs < MAKER_PATIENCE_MS) {
    const earlier = readdirSync(home.parent).filter((name) => {
      const pid = Number(TEMPORARY.exec(name)?.[1]);
      if (Number.isNaN(pid) || name === own) return false;
      if (isAlive(pid)) return name < own;
      rmSync(join(home.parent, name), { recursive: true, force: true });
      return false;
    });
    if (earlier.length === 0) return;
    await delay(MAKER_POLL_MS);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function requireMajor(home: Home, binaries: Binaries): void {
  const file = join(home.data, "PG_VERSION");
  let found: string;
  try {
    found = readFileSync(file, "utf8").trim();
  } catch (error) {
    if (!existsSync(file) && statSync(home.data).isDirectory()) found = "unknown";
    else {
      throw new UsageError(
        "EMBEDDED_FOLDER",
        `${home.path} cannot be read (${(error as Error).message}): the embedded Postgres belongs to the user who started it first`,
        { cause: error },
      );
    }
  }
  if (found === String(binaries.major)) return;
  throw new UsageError(
    "EMBEDDED_VERSION",
    found === "unknown"
      ? `${home.data} is not the data of a Postgres: move ${home.path} away to begin with an empty database`
      : `${home.path} was made by Postgres ${found}, and this gen-durable brings Postgres ${binaries.major}, which cannot read it: dump it with the gen-durable that made it (\`pg_dump "$(gen-durable db url)"\`), or move the folder away to begin with an empty database`,
    { found, wanted: binaries.major },
  );
}

/** A port on loopback that nobody listens on now. */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < PORTS.attempts; attempt += 1) {
    const port = randomInt(PORTS.from, PORTS.to);
    if (await isFree(port)) return port;
  }
  throw new UsageError(
    "EMBEDDED_PORT",
    `found no free port between ${PORTS.from} and ${PORTS.to} on 127.0.0.1`,
  );
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}
