// AttachedProcess: a real process that uses the embedded server of a folder (attached.mjs), and folders to do it in.

import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { stopEmbedded } from "#cli/embedded/attach.js";

const SCRIPT = resolve("test/cli/attached.mjs");
const EVENT_TIMEOUT_MS = 30_000;

export interface AttachedEvent {
  event: "attached" | "running" | "released" | "report" | "failed";
  url?: string;
  place?: string;
  line?: string;
  code?: string;
  message?: string;
}

export interface AttachOptions {
  uid?: number;
  /** A process group of its own, as a shell gives a foreground command. */
  ownGroup?: boolean;
}

const processes = new Set<AttachedProcess>();
const folders = new Set<string>();

export class AttachedProcess {
  readonly #child: ChildProcess;
  readonly #events: AttachedEvent[] = [];
  readonly #waiters = new Set<() => void>();
  #stderr = "";
  readonly ended: Promise<number | null>;

  constructor(folder: string, { uid, ownGroup }: AttachOptions = {}) {
    this.#child = spawn(process.execPath, [SCRIPT, folder], {
      stdio: ["pipe", "pipe", "pipe"],
      detached: ownGroup === true,
      ...(uid === undefined ? {} : { uid, gid: uid }),
    });
    let rest = "";
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#events.push(JSON.parse(line) as AttachedEvent);
      for (const wake of this.#waiters) wake();
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    this.ended = new Promise((done) => {
      this.#child.once("close", (code) => {
        processes.delete(this);
        for (const wake of this.#waiters) wake();
        done(code);
      });
    });
    processes.add(this);
  }

  get pid(): number {
    return this.#child.pid ?? Number.NaN;
  }

  /** The first event of that name, when it comes. */
  async event(name: AttachedEvent["event"], line?: string): Promise<AttachedEvent> {
    const limitMs = performance.now() + EVENT_TIMEOUT_MS;
    for (;;) {
      const found = this.#events.find((it) => it.event === name && (line === undefined || it.line === line));
      if (found !== undefined) return found;
      const leftMs = limitMs - performance.now();
      if (leftMs < 0 || this.#child.exitCode !== null || this.#child.signalCode !== null)
        throw new Error(`no "${name}": ${JSON.stringify(this.#events)} ${this.#stderr}`);
      await this.#change(leftMs);
    }
  }

  say(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  /** Lets it leave the server and end. */
  async release(): Promise<void> {
    this.#child.stdin?.end();
    await this.ended;
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    this.#child.kill(signal);
    await this.ended;
  }

  async #change(timeoutMs: number): Promise<void> {
    const abort = new AbortController();
    const changed = new Promise<void>((wake) => {
      this.#waiters.add(wake);
      abort.signal.addEventListener("abort", () => this.#waiters.delete(wake));
    });
    await Promise.race([
      changed,
      delay(timeoutMs, undefined, { signal: abort.signal }).catch(() => undefined),
    ]);
    abort.abort();
  }
}

/** Attaches a process and waits until it has the server. */
export async function attach(folder: string, options?: AttachOptions): Promise<AttachedProcess> {
  const attached = new AttachedProcess(folder, options);
  await attached.event("attached");
  return attached;
}

/** A folder that every user may enter. */
export function newFolder(mode = 0o755): string {
  const folder = mkdtempSync(join(tmpdir(), "gen-durable-embedded-"));
  chmodSync(folder, mode);
  folders.add(folder);
  return folder;
}

/** The server's pid as its pid file has it; undefined without one. */
export function serverPid(folder: string): number | undefined {
  const file = pidFile(folder);
  return existsSync(file) ? Number.parseInt(readFileSync(file, "utf8"), 10) : undefined;
}

export function pidFile(folder: string): string {
  return join(folder, ".gen-durable", "postgres", "data", "postmaster.pid");
}

/** Ends the users that a test has left, and the folder's server with them. */
export async function endUsers(folder: string): Promise<void> {
  if (processes.size === 0) return;
  await Promise.all([...processes].map((it) => it.kill()));
  await stopEmbedded(folder, { force: true }).catch(() => undefined);
}

/** Ends what the tests have left, and removes their folders. */
export async function cleanUp(): Promise<void> {
  await Promise.all([...processes].map((it) => it.kill()));
  for (const folder of folders) {
    await stopEmbedded(folder, { force: true }).catch(() => undefined);
    rmSync(folder, { recursive: true, force: true });
  }
}
