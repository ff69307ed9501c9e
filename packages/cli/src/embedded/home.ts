// Home: where the embedded server of one project folder lives.
//   <home>/            .gen-durable/postgres, made in one rename, owned by the server's account
//   <home>/data        the cluster
//   <home>/password    the superuser's password, readable by its owner only
//   <home>/port        the port that it takes unless somebody else has it
//   <home>/server.log  what Postgres says
//   <home>/stopped     there after `db stop --force`: processes that were attached do not bring the server back

import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { UsageError } from "#core/errors.js";
import { type Account, blockedFolder, serverAccount } from "./account.js";

/** Where root's projects keep their servers when the server's account cannot enter the project's folder. */
const SYSTEM_FOLDER = "/var/lib/gen-durable";

export interface Home {
  /** The project's folder. */
  folder: string;
  /** The parent of `path`; temporary folders and copies of the binaries lie in it too. */
  parent: string;
  path: string;
  data: string;
  passwordFile: string;
  portFile: string;
  logFile: string;
  stoppedFile: string;
  account: Account | undefined;
  /** The project's folder is closed to the server's account: this is the folder that bars the way. */
  barredBy: string | undefined;
}

/** Where the server of a project folder is, or will be. Creates nothing. */
export function findHome(folder: string): Home {
  const real = realpathSync(folder);
  const own = join(real, ".gen-durable");
  const account = serverAccount([join(own, "postgres"), own, real]);
  const barredBy = account === undefined ? undefined : blockedFolder(account, real);
  if (barredBy === undefined || account === undefined) return homeAt(real, own, account, undefined);
  if (existsSync(join(own, "postgres"))) {
    throw new UsageError(
      "EMBEDDED_BARRED",
      `the embedded Postgres in ${own} runs as ${account.name}, who cannot enter ${barredBy} any more: open it with \`chmod o+x ${barredBy}\`, or run gen-durable as the folder's owner`,
    );
  }
  const id = createHash("sha256").update(real).digest("hex").slice(0, 12);
  return homeAt(real, join(SYSTEM_FOLDER, `${basename(real) || "root"}-${id}`), account, barredBy);
}

/** Makes the folder that the home will lie in. @throws UsageError when it cannot be written. */
export function prepareParent(home: Home): void {
  try {
    mkdirSync(home.parent, { recursive: true, mode: 0o755 });
    // Whatever root's umask is, the server's account must be able to enter; what is in here has modes of its own.
    if (home.account !== undefined) for (const folder of foldersOfOurs(home)) chmodSync(folder, 0o755);
    const ignore = join(home.parent, ".gitignore");
    if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
  } catch (error) {
    throw new UsageError(
      "EMBEDDED_FOLDER",
      `the embedded Postgres keeps its data in ${home.parent}, which cannot be written (${(error as Error).message}): make it writable, run elsewhere, or name a database with --database-url or DATABASE_URL`,
      { cause: error },
    );
  }
}

/** The folders above the home that are ours to open: those of root that hold nothing but what we make. */
function foldersOfOurs({ parent }: Home): string[] {
  const folders = dirname(parent) === SYSTEM_FOLDER ? [SYSTEM_FOLDER, parent] : [parent];
  return folders.filter((folder) => statSync(folder).uid === 0);
}

/** The URL of the server on `port`. @throws UsageError when the password cannot be read. */
export function urlOf(home: Home, port: number): string {
  let password: string;
  try {
    password = readFileSync(home.passwordFile, "utf8").trim();
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    throw new UsageError(
      "EMBEDDED_PASSWORD",
      missing
        ? `${home.passwordFile} is gone, and without it nobody can log in to the embedded Postgres: put it back, or remove ${home.path} to begin with an empty database`
        : `${home.passwordFile} cannot be read (${(error as Error).message}): the embedded Postgres belongs to the user who started it first`,
      { cause: error },
    );
  }
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
}

function homeAt(
  folder: string,
  parent: string,
  account: Account | undefined,
  barredBy: string | undefined,
): Home {
  const path = join(parent, "postgres");
  return {
    folder,
    parent,
    path,
    data: join(path, "data"),
    passwordFile: join(path, "password"),
    portFile: join(path, "port"),
    logFile: join(path, "server.log"),
    stoppedFile: join(path, "stopped"),
    account,
    barredBy,
  };
}

/** Whether the home has been made. @throws UsageError when it cannot be looked at. */
export function isMade(home: Home): boolean {
  return existsSync(dirname(home.data)) && existsSync(home.data);
}
