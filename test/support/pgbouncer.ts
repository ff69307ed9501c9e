// PgBouncer: a real pooler in front of the run's server. Tests that need it are skipped where it is not installed
// (Debian: apt-get install pgbouncer).

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { findBinaries } from "./binaries.js";
import { freePort } from "./server.js";
import { until } from "./until.js";

const BINARY = ["pgbouncer", "/usr/sbin/pgbouncer"].find(
  (name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
);

/** Whether the tests of this machine can have one; says so where they cannot. */
export function hasPgBouncer(): boolean {
  if (BINARY === undefined)
    process.stderr.write(
      "pgbouncer is not installed: the tests behind a pooler are skipped (apt-get install pgbouncer)\n",
    );
  return BINARY !== undefined;
}

const running = new Set<PgBouncer>();
const hooks = globalThis as { afterAll?: (hook: () => Promise<void>) => void };
hooks.afterAll?.(async () => {
  await Promise.all([...running].map((pooler) => pooler.stop()));
});

export class PgBouncer {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #port: number;

  private constructor(child: ChildProcess, folder: string, port: number) {
    this.#child = child;
    this.#folder = folder;
    this.#port = port;
  }

  /** Starts one in transaction mode with so few server connections that its clients must share them. */
  static async start(
    serverUrl: string,
    options: { poolSize: number; users: readonly string[] },
  ): Promise<PgBouncer> {
    if (BINARY === undefined) throw new Error("pgbouncer is not installed");
    const { hostname, port: serverPort } = new URL(serverUrl);
    const folder = mkdtempSync(join(tmpdir(), "gen-durable-pooler-"));
    const port = await freePort();
    const { user } = findBinaries();
    writeFileSync(join(folder, "users"), options.users.map((name) => `"${name}" ""\n`).join(""));
    writeFileSync(
      join(folder, "pgbouncer.ini"),
      `[databases]
* = host=${hostname} port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(folder, "users")}
pool_mode = transaction
default_pool_size = ${options.poolSize}
max_client_conn = 500
logfile = ${join(folder, "log")}
log_connections = 0
log_disconnections = 0
`,
    );
    // It refuses to run as root, as Postgres does.
    if (user !== undefined) chownSync(folder, user.uid, user.gid);
    const child = spawn(BINARY, [join(folder, "pgbouncer.ini")], { stdio: "ignore", cwd: folder, ...user });
    const pooler = new PgBouncer(child, folder, port);
    running.add(pooler);
    await until(() => answers(pooler.url(serverUrl)), {
      describe: () => `pgbouncer answers; it logged ${pooler.log()}`,
    });
    return pooler;
  }

  /** The URL with the pooler in the server's place. */
  url(serverUrl: string, user?: string): string {
    const own = new URL(serverUrl);
    own.host = `127.0.0.1:${this.#port}`;
    if (user !== undefined) own.username = user;
    return own.href;
  }

  log(): string {
    return readFileSync(join(this.#folder, "log"), "utf8");
  }

  async stop(): Promise<void> {
    if (!running.delete(this)) return;
    if (this.#child.exitCode === null) {
      const exit = new Promise((resolve) => this.#child.once("exit", resolve));
      this.#child.kill("SIGKILL");
      await exit;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    client.end().catch(() => undefined);
  }
}
