// Node: a real `gen-durable start` in a process of its own, with its log, and every way to end it.
// P1  Every process is killed after the file's last test, whatever became of the tests or of the process that runs them.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { auditEnvironment } from "./audit.js";
import type { TestDatabase } from "./database.js";
import { keep } from "./keeper.js";
import { until } from "./until.js";

const BIN = resolve("packages/cli/bin/gen-durable.js");
const PROBES = resolve("test/support/probes");

/** What SCENARIOS.md calls the settings when nothing else is said. */
const DEFAULTS = {
  queues: { default: 5 },
  pollIntervalMs: 25,
  maxPollIntervalMs: 25,
  leaseTtlMs: 1_000,
  heartbeatIntervalMs: 300,
  reaper: { intervalMs: 150 },
  flushers: [{ queues: "all", maxBatch: 100, maxDelayMs: 5 }],
};

/** Only a poke or a completion can find work. */
export const FAR_POLLS = { pollIntervalMs: 60_000, maxPollIntervalMs: 60_000 };

export interface NodeOptions {
  database: TestDatabase;
  /** Probe modules by name ("basic"), or paths of other modules. Default: all probes. */
  fsms?: readonly string[];
  /** Configuration on top of the defaults above. */
  config?: Record<string, unknown>;
  /** The whole configuration, beside the machines and the database: everything else has the engine's own default. */
  exactConfig?: Record<string, unknown>;
  /** Executor threads; 2 unless given. */
  workers?: number;
  /** More flags of `gen-durable start`. */
  flags?: readonly string[];
  env?: Record<string, string>;
}

/** A line of the node's log, as bunyan writes it. */
export interface LogRecord extends Record<string, unknown> {
  level: number;
  msg: string;
}

const running = new Set<NodeProcess>();

const hooks = globalThis as { afterAll?: (hook: () => Promise<void>) => void };
hooks.afterAll?.(async () => {
  await Promise.all([...running].map((node) => node.kill()));
});

/** Starts a node and resolves when it picks work. */
export async function startNode(options: NodeOptions): Promise<NodeProcess> {
  const node = spawnNode(options);
  await node.ready();
  return node;
}

/** Starts a node without waiting for it. */
export function spawnNode(options: NodeOptions): NodeProcess {
  const folder = mkdtempSync(join(tmpdir(), "gen-durable-node-"));
  const file = join(folder, "gen-durable.config.mjs");
  const fsms = (options.fsms ?? ["basic", "failing", "waiting", "family", "jobs"]).map((name) =>
    name.includes("/") ? resolve(name) : join(PROBES, `${name}.ts`),
  );
  const settings = options.exactConfig ?? { ...DEFAULTS, ...options.config };
  const config = { fsms, database: { url: options.database.url }, ...settings };
  const args = [
    "start",
    "--config",
    file,
    "--workers",
    String(options.workers ?? 2),
    ...(options.flags ?? []),
  ];
  writeFileSync(file, `export default ${JSON.stringify(config)};\n`);
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NO_COLOR: "1", ...auditEnvironment(options.database), ...options.env },
  });
  if (child.pid !== undefined) keep(folder, child.pid);
  return new NodeProcess(child, folder);
}

export class NodeProcess {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  #stderr = "";
  #stdout = "";

  constructor(child: ChildProcess, folder: string) {
    this.#child = child;
    this.#folder = folder;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
    });
    running.add(this);
    this.exited = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        running.delete(this);
        rmSync(this.#folder, { recursive: true, force: true });
        resolve({ code, signal });
      });
    });
  }

  get pid(): number {
    const { pid } = this.#child;
    if (pid === undefined) throw new Error("the node's process could not be started");
    return pid;
  }

  get hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  get stderr(): string {
    return this.#stderr;
  }

  get stdout(): string {
    return this.#stdout;
  }

  /** The records logged so far. Lines that are no JSON are left out. */
  get log(): LogRecord[] {
    const lines = this.#stderr.split("\n").filter((line) => line.startsWith("{") && line.endsWith("}"));
    return lines.map((line) => JSON.parse(line) as LogRecord);
  }

  /** Resolves when the node says that it picks work. @throws with its stderr when it ends before. */
  async ready(timeoutMs = 60_000): Promise<void> {
    await this.logged("the node is running", timeoutMs);
  }

  /** Resolves with the first log record whose message contains the text. */
  logged(text: string, timeoutMs = 60_000): Promise<LogRecord> {
    return until(
      () => {
        const record = this.log.find(({ msg }) => msg.includes(text));
        if (record === undefined && this.hasExited) throw new Error(`the node ended early:\n${this.#stderr}`);
        return record;
      },
      { timeoutMs, describe: () => `the node logs "${text}"; it logged:\n${this.#stderr.slice(-4_000)}` },
    );
  }

  /** Sends a signal to the process. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** SIGTERM, and the exit that follows. */
  async stop(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    this.signal("SIGTERM");
    return this.exited;
  }

  /** SIGKILL, and the exit that follows. A stopped process (SIGSTOP) dies of it as well. */
  async kill(): Promise<void> {
    if (!this.hasExited) this.#child.kill("SIGKILL");
    await this.exited;
  }
}
