// Node process: one `gen-durable start`, with its log and every way to hurt it.

import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const PRELOAD = pathToFileURL(resolve("torture/preload.mjs")).href;
const LOG_CHARS_MAX = 200_000;

export interface NodeOptions {
  bin: string;
  /** Where its configuration is written; all nodes of a run share the folder and what is compiled in it. */
  folder: string;
  name: string;
  config: Record<string, unknown>;
  workers: number;
  skewMs: number;
  env: Record<string, string>;
}

export class NodeProcess {
  readonly name: string;
  readonly skewMs: number;
  readonly #child: ChildProcess;
  readonly exited: Promise<void>;
  #log = "";
  #ready: () => void = () => undefined;
  /** Resolves when it picks work, or has ended. */
  readonly ready: Promise<void>;
  isReady = false;

  constructor(options: NodeOptions) {
    this.name = options.name;
    this.skewMs = options.skewMs;
    const file = join(options.folder, `${options.name}.config.mjs`);
    writeFileSync(file, `export default ${JSON.stringify(options.config)};\n`);
    this.#child = spawn(
      process.execPath,
      [options.bin, "start", "--config", file, "--workers", String(options.workers)],
      {
        cwd: options.folder,
        stdio: ["ignore", "ignore", "pipe"],
        env: {
          ...process.env,
          NO_COLOR: "1",
          NODE_OPTIONS: `--import=${PRELOAD}`,
          TORTURE_SKEW_MS: String(options.skewMs),
          ...options.env,
        },
      },
    );
    this.ready = new Promise((resolve) => {
      this.#ready = resolve;
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#log += text;
      if (this.#log.length > 2 * LOG_CHARS_MAX) this.#log = this.#log.slice(-LOG_CHARS_MAX);
      if (!this.isReady && this.#log.includes("the node is running")) {
        this.isReady = true;
        this.#ready();
      }
    });
    this.exited = new Promise((resolve) => {
      this.#child.once("close", () => {
        this.#ready();
        resolve();
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

  get exitCode(): number | null {
    return this.#child.exitCode;
  }

  get log(): string {
    return this.#log;
  }

  /** The last lines that it wrote. */
  get lastWords(): string {
    return this.#log.trimEnd().split("\n").slice(-3).join(" | ").slice(-1_000);
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.hasExited) this.#child.kill(signal);
  }

  /** SIGKILL; a stopped process dies of it as well. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.exited;
  }
}
