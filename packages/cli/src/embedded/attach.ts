// Attach: how a process uses the embedded server of its folder, and how the last one stops it.
// E1  Every user holds a shared advisory lock on a connection of its own for as long as it uses the server.
// E2  Who leaves gives its lock back and asks for the exclusive one; who gets it is alone, and stops the server.
// E3  Who finds the exclusive lock taken waits for that server's end and starts the next one.
// E4  Postgres's pid file is the start lock; of many that start, one succeeds and the others join it.
// E5  A user that loses the server brings it back, unless it was stopped on purpose (`db stop --force`).

import { createHash } from "node:crypto";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { Connection } from "#core/database/connection.js";
import { classifyFailure } from "#core/database/failure.js";
import { Statements } from "#core/database/statements.js";
import { GenDurableError, TransientError, UsageError } from "#core/errors.js";
import type { DatabaseSettings } from "#core/settings.js";
import { type Binaries, findBinaries } from "./binaries.js";
import { ensureCluster } from "./cluster.js";
import { findHome, type Home, isMade, urlOf } from "./home.js";
import { readPostmaster } from "./postmaster.js";
import { ensureServer, stopServer } from "./server.js";

/** The lock that users share; any number that no user of advisory locks would take by chance. */
const USERS_LOCK = createHash("sha256")
  .update("gen-durable embedded users")
  .digest()
  .readBigInt64BE(0)
  .toString();
const RETRY_MS = 50;
/** Joining goes on so long while servers come and go under us. */
const JOIN_PATIENCE_MS = 120_000;
/** A server that is lost is looked after at this pace. */
const HEAL_RETRY_MS = 1_000;

const statements = new Statements("gen_durable");

export interface EmbeddedServer {
  /** With the password in it. The port stays the same over restarts unless somebody else takes it. */
  readonly url: string;
  /** Where the server keeps its data, and why there if not in the project's folder. */
  readonly place: string;
  /** Stops using the server; the last user stops it. Never rejects. */
  release(): Promise<void>;
  /** Brings the server back if it is gone, and returns its URL. Many processes may do so at once. */
  ensureRunning(): Promise<string>;
}

export interface AttachOptions {
  /** Told of what takes long or goes wrong; a line each. */
  report?: (line: string) => void;
}

/**
 * Uses the embedded server of a project folder; creates and starts it if need be.
 * @throws UsageError with a `code` when the folder, the platform or the data do not allow it.
 */
export async function attachEmbedded(folder: string, options: AttachOptions = {}): Promise<EmbeddedServer> {
  const home = findHome(folder);
  if (home.account === undefined && process.getuid?.() === 0) {
    throw new UsageError(
      "EMBEDDED_ROOT",
      "Postgres does not run as root, and this system has neither a user `postgres` nor `nobody`: add one, run gen-durable as another user, or name a database with --database-url or DATABASE_URL",
    );
  }
  const binaries = findBinaries(home);
  await ensureCluster(home, binaries);
  rmSync(home.stoppedFile, { force: true });
  const attachment = new Attachment(home, binaries, options.report ?? (() => undefined));
  await attachment.ensureRunning();
  return attachment;
}

/** The URL of the folder's embedded server if it runs, else undefined. */
export function findEmbedded(folder: string): string | undefined {
  const home = findHome(folder);
  if (!isMade(home)) return undefined;
  const postmaster = readPostmaster(home);
  return postmaster.state === "ready" ? urlOf(home, postmaster.port) : undefined;
}

/** Whether the folder has a server of its own, running or not. */
export function hasEmbedded(folder: string): boolean {
  return isMade(findHome(folder));
}

export type StopAnswer =
  | { stopped: true }
  | { stopped: false; reason: "not_running" }
  | { stopped: false; reason: "in_use"; users: number };

/** Stops the folder's embedded server if nobody uses it, or with `force` in any case; then its users do not restart it. */
export async function stopEmbedded(folder: string, options: { force?: boolean } = {}): Promise<StopAnswer> {
  const home = findHome(folder);
  if (!isMade(home)) return { stopped: false, reason: "not_running" };
  const postmaster = readPostmaster(home);
  if (postmaster.state !== "ready" && postmaster.state !== "starting")
    return { stopped: false, reason: "not_running" };
  const binaries = findBinaries(home);
  const connection = await connect(urlOf(home, await ensureServer(home, binaries)));
  try {
    if (!(await asks(connection, "cli/take_server"))) {
      if (options.force !== true) {
        const [row] = await connection.run<{ users: number }>(statements.get("cli/count_server_users"), [
          USERS_LOCK,
        ]);
        return { stopped: false, reason: "in_use", users: row?.users ?? 1 };
      }
      writeFileSync(home.stoppedFile, "");
    }
    await stopServer(home, binaries);
    return { stopped: true };
  } finally {
    await connection.close();
  }
}

class Attachment implements EmbeddedServer {
  readonly #home: Home;
  readonly #binaries: Binaries;
  readonly #report: (line: string) => void;
  #connection: Connection | undefined;
  #url = "";
  /** The postmaster that was joined last. */
  #pid = 0;
  #joining: Promise<string> | undefined;
  readonly #released = new AbortController();

  constructor(home: Home, binaries: Binaries, report: (line: string) => void) {
    this.#home = home;
    this.#binaries = binaries;
    this.#report = report;
  }

  get url(): string {
    return this.#url;
  }

  get place(): string {
    const { path, barredBy, account } = this.#home;
    if (barredBy === undefined) return path;
    return `${path} (Postgres runs as ${account?.name}, who cannot enter ${barredBy})`;
  }

  async ensureRunning(): Promise<string> {
    if (this.#connection?.isLost === false) return this.#url;
    this.#joining ??= this.#join().finally(() => {
      this.#joining = undefined;
    });
    return this.#joining;
  }

  async release(): Promise<void> {
    if (this.#released.signal.aborted) return;
    this.#released.abort();
    await this.#joining?.catch(() => undefined);
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection === undefined) return;
    try {
      await asks(connection, "cli/leave_server");
      if (await asks(connection, "cli/take_server")) await stopServer(this.#home, this.#binaries);
    } catch (error) {
      if (classifyFailure(error) !== "connection")
        this.#report(`leaving the embedded Postgres: ${messageOf(error)}`);
    } finally {
      await connection.close();
    }
  }

  async #join(): Promise<string> {
    const startMs = performance.now();
    for (;;) {
      if (this.#released.signal.aborted)
        throw new TransientError("EMBEDDED_RELEASED", "the embedded server was released");
      if (existsSync(this.#home.stoppedFile)) {
        throw new TransientError(
          "EMBEDDED_STOPPED",
          "the embedded Postgres was stopped with `gen-durable db stop --force`; the next command that needs it starts it",
        );
      }
      const port = await ensureServer(this.#home, this.#binaries);
      const url = urlOf(this.#home, port);
      const joined = await this.#tryJoin(url);
      if (joined) {
        this.#url = url;
        return url;
      }
      if (performance.now() - startMs > JOIN_PATIENCE_MS)
        throw new TransientError("EMBEDDED_START", `cannot join the embedded Postgres in ${this.#home.path}`);
      await delay(RETRY_MS);
    }
  }

  /** One attempt; false when the server is coming or going. @throws what waiting does not cure. */
  async #tryJoin(url: string): Promise<boolean> {
    let connection: Connection | undefined;
    try {
      connection = await connect(url, () => this.#heal());
      const postmaster = (await asks(connection, "cli/join_server")) ? readPostmaster(this.#home) : undefined;
      if (postmaster?.state === "ready") {
        this.#pid = postmaster.pid;
        this.#connection = connection;
        return true;
      }
    } catch (error) {
      if (classifyFailure(error) !== "connection") throw loginError(this.#home, error);
    }
    await connection?.close();
    return false;
  }

  /** The connection is gone, mostly with its server: bring it back, however long it takes (E5). */
  #heal(): void {
    if (this.#released.signal.aborted || this.#connection === undefined) return;
    const lostPid = this.#pid;
    if (readPostmaster(this.#home).state !== "ready")
      this.#report("the embedded Postgres is gone; starting it again");
    void (async () => {
      while (!this.#released.signal.aborted) {
        try {
          await this.ensureRunning();
          // Another user may have started the next one before this one saw that the last was gone.
          if (this.#pid !== lostPid) this.#report("the embedded Postgres is back");
          return;
        } catch (error) {
          if (!(error instanceof GenDurableError) || error.code !== "ERR_GEN_DURABLE_EMBEDDED_STOPPED")
            this.#report(messageOf(error));
          await delay(HEAL_RETRY_MS, undefined, { ref: false, signal: this.#released.signal }).catch(
            () => undefined,
          );
        }
      }
    })();
  }
}

function connect(url: string, onLost?: (error: Error) => void): Promise<Connection> {
  const settings: DatabaseSettings = { url, listenUrl: undefined, schema: "gen_durable", prepare: true };
  return Connection.open(settings, { role: "embedded", ...(onLost === undefined ? {} : { onLost }) });
}

async function asks(connection: Connection, statement: string): Promise<boolean> {
  const [row] = await connection.run<{ ok: boolean }>(statements.get(statement), [USERS_LOCK]);
  return row?.ok === true;
}

/** 28: wrong password. The file and the data do not belong together. */
function loginError(home: Home, error: unknown): unknown {
  const code = (error as { code?: unknown }).code;
  if (typeof code !== "string" || !code.startsWith("28")) return error;
  return new UsageError(
    "EMBEDDED_PASSWORD",
    `the embedded Postgres refuses the password in ${home.passwordFile}: put the right one back, or move ${home.path} away to begin with an empty database`,
    { cause: error },
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
