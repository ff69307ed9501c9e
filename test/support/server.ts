// Server: one throw-away Postgres under the OS's temp folder, a direct child of this process.
// S1  It listens on loopback only, on a free port, and keeps that port over kill() and restart().
// S2  Its log is a file, so that a test can ask whether a deadlock was seen.
// S3  stop() leaves neither a process nor a file behind, and neither does an end of this process without it (keeper.ts).

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chownSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { type Binaries, findBinaries } from "./binaries.js";
import { keep } from "./keeper.js";
import { until } from "./until.js";

export interface ServerOptions {
  /** Survive a power cut; off by default, since a killed postmaster loses nothing without it. */
  fsync?: boolean;
  /** Server settings on top of the defaults below. */
  settings?: Record<string, string | number>;
  /** Begin as a copy of this running server, and follow it. */
  standbyOf?: Server;
}

const START_TIMEOUT_MS = 30_000;
const PORT_ATTEMPTS_MAX = 5;

const DEFAULTS: Record<string, string | number> = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: 300,
  shared_buffers: "128MB",
  max_wal_size: "2GB",
  synchronous_commit: "on",
  log_line_prefix: "%m [%p] %q%a@%d ",
  log_lock_waits: "on",
  deadlock_timeout: "500ms",
};

export class Server {
  readonly folder: string;
  readonly logFile: string;
  readonly #binaries: Binaries;
  readonly #options: ServerOptions;
  #port = 0;
  #child: ChildProcess | undefined;

  private constructor(binaries: Binaries, options: ServerOptions) {
    this.#binaries = binaries;
    this.#options = options;
    this.folder = mkdtempSync(join(tmpdir(), "gen-durable-test-"));
    this.logFile = join(this.folder, "server.log");
    if (binaries.user !== undefined) chownSync(this.folder, binaries.user.uid, binaries.user.gid);
    keep(this.folder);
    if (binaries.copy !== undefined) keep(binaries.copy);
  }

  /** Creates a cluster and starts it. */
  static async start(options: ServerOptions = {}): Promise<Server> {
    const server = new Server(findBinaries(), options);
    try {
      if (options.standbyOf === undefined) server.#initialise();
      else await server.#copy(options.standbyOf);
      for (let attempt = 1; ; attempt++) {
        server.#port = await freePort();
        try {
          await server.restart();
          return server;
        } catch (error) {
          if (attempt === PORT_ATTEMPTS_MAX) throw error;
        }
      }
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  /** The URL of a database on this server. */
  url(database = "postgres"): string {
    return `postgres://postgres@127.0.0.1:${this.#port}/${database}`;
  }

  get port(): number {
    return this.#port;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts the server again after kill(), on the same port and folder. */
  async restart(): Promise<void> {
    const settings = {
      ...DEFAULTS,
      port: this.#port,
      ...(this.#options.fsync === true ? {} : { fsync: "off", full_page_writes: "off" }),
      ...this.#options.settings,
      ...(this.#options.standbyOf === undefined
        ? {}
        : {
            primary_conninfo: `host=127.0.0.1 port=${this.#options.standbyOf.port} user=postgres application_name=standby`,
          }),
    };
    const log = openSync(this.logFile, "a");
    const child = spawn(
      join(this.#binaries.bin, "postgres"),
      [
        "-D",
        join(this.folder, "data"),
        ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
      ],
      { stdio: ["ignore", log, log], cwd: this.folder, ...this.#binaries.user },
    );
    closeSync(log);
    this.#child = child;
    if (child.pid !== undefined) keep(this.folder, child.pid, "QUIT");
    child.once("exit", () => {
      if (this.#child === child) this.#child = undefined;
    });
    await until(
      async () => {
        if (this.#child !== child)
          throw new Error(`Postgres ended at its start:\n${this.log().slice(-2000)}`);
        return canConnect(this.url());
      },
      { timeoutMs: START_TIMEOUT_MS, describe: "Postgres accepts connections" },
    );
  }

  /** SIGKILL of the postmaster (its children notice and end), or SIGQUIT, its own way to stop at once. Resolves when it is gone. */
  async kill(signal: "SIGKILL" | "SIGQUIT" = "SIGKILL"): Promise<void> {
    await this.#end(signal);
  }

  /** What the server has logged. */
  log(): string {
    return readFileSync(this.logFile, "utf8");
  }

  /** Stops the server at once and removes its folder. */
  async stop(): Promise<void> {
    await this.#end("SIGQUIT");
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
    if (this.#binaries.copy !== undefined) rmSync(this.#binaries.copy, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    const exit = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill(signal);
    await exit;
  }

  /** A base backup by the low-level way: the embedded binaries have no pg_basebackup. */
  async #copy(primary: Server): Promise<void> {
    const client = new pg.Client({ connectionString: primary.url() });
    await client.connect();
    try {
      const { rows } = await client.query<{ version: number }>(
        "SELECT current_setting('server_version_num')::int AS version",
      );
      const isOld = (rows[0]?.version ?? 0) < 150_000;
      const data = join(this.folder, "data");
      await client.query(
        isOld ? "SELECT pg_start_backup('copy', true, false)" : "SELECT pg_backup_start('copy', true)",
      );
      const { status, stderr } = spawnSync("cp", ["-a", join(primary.folder, "data"), data], {
        cwd: this.folder,
        encoding: "utf8",
        ...this.#binaries.user,
      });
      if (status !== 0) throw new Error(`copying the primary failed: ${stderr}`);
      const { rows: ended } = await client.query<{ labelfile: string }>(
        `SELECT labelfile FROM ${isOld ? "pg_stop_backup(false, false)" : "pg_backup_stop(false)"}`,
      );
      rmSync(join(data, "postmaster.pid"), { force: true });
      for (const [file, text] of [
        ["backup_label", ended[0]?.labelfile ?? ""],
        ["standby.signal", ""],
      ] as const) {
        writeFileSync(join(data, file), text);
        const { user } = this.#binaries;
        if (user !== undefined) chownSync(join(data, file), user.uid, user.gid);
      }
    } finally {
      await client.end();
    }
  }

  #initialise(): void {
    const { status, stderr } = spawnSync(
      join(this.#binaries.bin, "initdb"),
      [
        "-D",
        join(this.folder, "data"),
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
      ],
      { cwd: this.folder, encoding: "utf8", ...this.#binaries.user },
    );
    if (status !== 0) throw new Error(`initdb failed: ${stderr}`);
  }
}

async function canConnect(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** A port nobody listens on at this moment. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}
