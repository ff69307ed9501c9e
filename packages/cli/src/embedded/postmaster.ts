// Postmaster: what postmaster.pid says about the server, and whether it is true. Postgres's own pid file is the start
// lock: a server that finds the file of a live postmaster refuses to start. Nothing here trusts the file alone.

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { linkSync, readFileSync, readlinkSync, realpathSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Home } from "./home.js";

export type Postmaster =
  | { state: "absent" }
  /** The file's process is gone. Postgres removes such a file itself when it starts. */
  | { state: "dead"; text: string }
  /** The file's process lives but is no postmaster of this folder: Postgres would refuse to start. */
  | { state: "stranger"; text: string; pid: number }
  | { state: "starting" | "stopping"; pid: number }
  | { state: "ready"; pid: number; port: number };

/** Lines of postmaster.pid, counted from 0. */
const PID_LINE = 0;
const PORT_LINE = 3;
const STATUS_LINE = 7;

/** Reads and judges the pid file. */
export function readPostmaster(home: Home): Postmaster {
  let text: string;
  try {
    text = readFileSync(pidFile(home), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { state: "absent" };
    throw error;
  }
  const lines = text.split("\n").map((line) => line.trim());
  const pid = Math.abs(Number.parseInt(lines[PID_LINE] ?? "", 10));
  // An empty or half-written file: somebody is starting this moment, or a full disk left it. Postgres judges it.
  if (!Number.isSafeInteger(pid) || pid === 0) return { state: "dead", text };
  if (!isAlive(pid)) return { state: "dead", text };
  if (!isPostmasterOf(pid, home)) return { state: "stranger", text, pid };
  switch (lines[STATUS_LINE]) {
    case "ready":
    case "standby":
      return { state: "ready", pid, port: Number.parseInt(lines[PORT_LINE] ?? "", 10) };
    case "stopping":
      return { state: "stopping", pid };
    default:
      return { state: "starting", pid };
  }
}

/** Removes a stranger's pid file, and only that one: what is not the text that was judged is put back. */
export function removePidFile(home: Home, judged: string): void {
  const file = pidFile(home);
  const aside = `${file}.stale-${randomBytes(6).toString("hex")}`;
  try {
    renameSync(file, aside);
    if (readFileSync(aside, "utf8") !== judged) linkSync(aside, file);
  } catch {
    // Somebody else removed it, or a new server has written its own already.
  }
  rmSync(aside, { force: true });
}

function pidFile(home: Home): string {
  return join(home.data, "postmaster.pid");
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Where it cannot be told, a live process counts as the postmaster: refusing to start is safer than starting twice. */
function isPostmasterOf(pid: number, home: Home): boolean {
  if (process.platform === "linux") {
    if (isZombie(pid)) return false;
    try {
      // A postmaster's working folder is its data folder; only its own user and root may look.
      return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(home.data);
    } catch {
      return commandOf(() => readFileSync(`/proc/${pid}/comm`, "utf8"));
    }
  }
  if (process.platform === "win32") return true;
  return commandOf(() => execFileSync("ps", ["-p", String(pid), "-o", "comm="], { encoding: "utf8" }));
}

/** In a container whose first process does not wait for its orphans, a killed postmaster keeps its pid. */
function isZombie(pid: number): boolean {
  try {
    // The state follows the command, which is in parentheses and may hold anything.
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return /^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}

function commandOf(read: () => string): boolean {
  try {
    return /postgres|postmaster/.test(read());
  } catch {
    return true;
  }
}
