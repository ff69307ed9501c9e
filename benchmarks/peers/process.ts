// Process: one child of child.mjs, in which one engine works or inserts; its commands and what its handlers have ended.

import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { keep } from "../../test/support/keeper.js";
import type { PeerEngine } from "./engines.js";

const STOP_TIMEOUT_MS = 10_000;

/** What a process can be told, and what it answers. */
interface Commands {
  setUp: { ask: object; answer: object };
  bulk: { ask: { count: number; kind: "one" | "chain" }; answer: object };
  start: { ask: { workload: Workload }; answer: { atMs: number } };
  fanOut: { ask: { parents: number; children: number }; answer: object };
  enqueue: {
    ask: { count: number; from: number; spacingMs: number };
    answer: { calledMs: [number, number][] };
  };
  usage: { ask: object; answer: { cpuUs: number; residentMb: number; firstMs: number | null } };
  starts: { ask: object; answer: { starts: [number, number][] } };
  stop: { ask: object; answer: object };
}

export type Workload = "drain" | "chain" | "fanOut" | "latency";

type Message = { ready?: true; versions?: Record<string, string>; count?: number } & {
  n?: number;
  answer?: object;
  error?: string;
};

export class PeerProcess {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #waiting = new Map<number, { resolve(answer: object): void; reject(error: Error): void }>();
  readonly #ready: Promise<void>;
  #asked = 0;
  /** Units that its handlers have ended, as it last said. */
  ended = 0;
  versions: Record<string, string> = {};

  private constructor(engine: PeerEngine, url: string, options: object) {
    this.#folder = mkdtempSync(join(tmpdir(), "gen-durable-peer-"));
    this.#child = fork(
      resolve("benchmarks/peers/child.mjs"),
      [engine.file, url, JSON.stringify(options), this.#folder],
      {
        stdio: ["ignore", "ignore", "inherit", "ipc"],
        cwd: this.#folder,
        // What the engines' own dependencies will have to change is not ours to print.
        execArgv: ["--no-deprecation"],
      },
    );
    if (this.#child.pid !== undefined) keep(this.#folder, this.#child.pid);
    this.#ready = new Promise((resolve, reject) => {
      this.#child.on("message", (message: Message) => {
        if (message.ready === true) {
          this.versions = message.versions ?? {};
          resolve();
        }
        this.#receive(message);
      });
      this.#child.once("exit", (code) => {
        const error = new Error(`the process of ${engine.name} ended with ${code}`);
        reject(error);
        for (const { reject: fail } of this.#waiting.values()) fail(error);
      });
    });
  }

  /** Starts a process and resolves when it has loaded its engine. */
  static async start(engine: PeerEngine, url: string, options: object): Promise<PeerProcess> {
    const started = new PeerProcess(engine, url, options);
    await started.#ready;
    return started;
  }

  ask<Name extends keyof Commands>(
    command: Name,
    ask: Commands[Name]["ask"],
  ): Promise<Commands[Name]["answer"]> {
    const n = ++this.#asked;
    return new Promise((resolve, reject) => {
      // child.mjs answers each command as the table above says.
      this.#waiting.set(n, { resolve: resolve as (answer: object) => void, reject });
      this.#child.send({ n, command, ...ask });
    });
  }

  /** Lets the engine end by itself, for a while. */
  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = new Promise<void>((resolve) => this.#child.once("exit", () => resolve()));
      const stopped = this.ask("stop", {}).catch(() => undefined);
      await Promise.race([stopped, sleep(STOP_TIMEOUT_MS)]);
      this.#child.kill("SIGKILL");
      await exited;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #receive({ n, answer, error, count }: Message): void {
    if (count !== undefined) this.ended = count;
    if (n === undefined) return;
    const waiting = this.#waiting.get(n);
    this.#waiting.delete(n);
    if (error === undefined) waiting?.resolve(answer ?? {});
    else waiting?.reject(new Error(error));
  }
}
