// Server: starts and stops the postmaster of one home. It belongs to no process: whoever needs it starts it.

import { chownSync, existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { TransientError } from "#core/errors.js";
import type { Binaries } from "./binaries.js";
import { findFreePort } from "./cluster.js";
import type { Home } from "./home.js";
import { readPostmaster, removePidFile } from "./postmaster.js";
import { runTool } from "./tool.js";

/** How long one pg_ctl watches the server come up; a longer recovery is waited for by reading the pid file. */
const START_WATCH_S = 60;
const STOP_WATCH_S = 60;
/** A start that fails for a reason that may pass (children of a killed postmaster, a port just taken) is tried again so long. */
const START_PATIENCE_MS = 20_000;
const PASSING = /shared memory|lock file|could not (?:bind|create any TCP)/i;
const PORT_TAKEN = /could not (?:bind|create any TCP)/i;
/** So many starts find the port taken before another one is looked for: what is left of a killed server may hold it a moment. */
const PORT_FAILURES_MAX = 3;
/** Any other reason stays; somebody else's start that won may look like one, though. */
const START_FAILURES_MAX = 3;
/** Crash recovery after a hard kill replays what was not checkpointed. */
const RECOVERY_PATIENCE_MS = 600_000;
const POLL_MS = 25;
const LOG_BYTES_MAX = 8 * 1024 * 1024;
const LOG_TAIL_CHARS = 2_000;

/** Returns the port of the running server, after starting it if need be. @throws TransientError when it does not come up. */
export async function ensureServer(home: Home, binaries: Binaries): Promise<number> {
  const startMs = performance.now();
  let failures = 0;
  let portFailures = 0;
  for (;;) {
    const postmaster = readPostmaster(home);
    const elapsedMs = performance.now() - startMs;
    switch (postmaster.state) {
      case "ready":
        return postmaster.port;
      case "starting":
      case "stopping":
        if (elapsedMs > RECOVERY_PATIENCE_MS) {
          throw new TransientError(
            "EMBEDDED_START",
            `the embedded Postgres (pid ${postmaster.pid}) has been ${postmaster.state} for ${Math.round(elapsedMs / 1000)} s; its log is ${home.logFile}`,
          );
        }
        await delay(POLL_MS);
        break;
      case "stranger":
        removePidFile(home, postmaster.text);
        break;
      case "absent":
      case "dead": {
        const kept = portFailures < PORT_FAILURES_MAX ? readPort(home) : undefined;
        const failure = await start(home, binaries, kept ?? (await findFreePort()));
        if (failure === undefined) break;
        failures += 1;
        if (PORT_TAKEN.test(failure)) portFailures += 1;
        // Somebody else's start may have won; the next look at the pid file tells.
        if (PASSING.test(failure) ? elapsedMs > START_PATIENCE_MS : failures >= START_FAILURES_MAX)
          throw startError(home, failure);
        await delay(POLL_MS * Math.min(2 ** failures, 40));
        break;
      }
    }
  }
}

/** Stops the server and waits until it is down. Uncommitted work of its sessions is rolled back. */
export async function stopServer(home: Home, binaries: Binaries): Promise<void> {
  const { status, output } = await runTool({
    file: binaries.pgCtl,
    args: ["stop", "-D", home.data, "-m", "fast", "-w", "-t", String(STOP_WATCH_S)],
    cwd: home.path,
    account: home.account,
  });
  if (status === 0) return;
  const { state } = readPostmaster(home);
  if (state === "absent" || state === "dead" || state === "stranger") return;
  throw new TransientError("EMBEDDED_STOP", `the embedded Postgres did not stop: ${output}`);
}

/** One attempt. Returns what went wrong, or undefined. */
async function start(home: Home, binaries: Binaries, port: number): Promise<string | undefined> {
  rotateLog(home);
  const logStart = sizeOf(home.logFile);
  const { status, output } = await runTool({
    file: binaries.pgCtl,
    args: [
      ...["start", "-D", home.data, "-l", home.logFile, "-o", `-p ${port}`],
      ...["-w", "-t", String(START_WATCH_S)],
    ],
    cwd: home.path,
    account: home.account,
  });
  if (status === 0) {
    if (port !== readPort(home)) writePort(home, port);
    return undefined;
  }
  const log = readFrom(home.logFile, logStart);
  return log === "" ? output : log.slice(-LOG_TAIL_CHARS);
}

/**
 * The home's own port, so that those who were connected find the server again. It is not probed before a start: the
 * probes of two users who start at once would find each other, and take the port for taken.
 */
function readPort(home: Home): number | undefined {
  const port = existsSync(home.portFile) ? Number.parseInt(readFileSync(home.portFile, "utf8"), 10) : 0;
  return port > 0 ? port : undefined;
}

function writePort(home: Home, port: number): void {
  writeFileSync(home.portFile, `${port}\n`, { mode: 0o644 });
  if (home.account !== undefined) chownSync(home.portFile, home.account.uid, home.account.gid);
}

function startError(home: Home, failure: string): TransientError {
  return new TransientError(
    "EMBEDDED_START",
    `the embedded Postgres in ${home.path} does not start${home.account === undefined ? "" : ` (as ${home.account.name})`}; its log is ${home.logFile}:\n${failure.trim()}`,
  );
}

function rotateLog(home: Home): void {
  if (sizeOf(home.logFile) < LOG_BYTES_MAX) return;
  rmSync(`${home.logFile}.1`, { force: true });
  renameSync(home.logFile, `${home.logFile}.1`);
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function readFrom(file: string, offset: number): string {
  return existsSync(file) ? readFileSync(file).subarray(offset).toString() : "";
}
