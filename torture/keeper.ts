// Keeper: the harness's side of the process that holds Postgres. Nothing of a run outlives it: the pipe tells.

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

export type KeeperRequest =
  | { do: "watch" | "forget"; pid: number }
  | { do: "crash"; signal: "SIGKILL" | "SIGQUIT" }
  | { do: "restart" };

export interface KeeperAnswer {
  url?: string;
  logFile?: string;
}

/** A question that has no answer yet. */
interface Asked {
  resolve: (answer: KeeperAnswer) => void;
  reject: (error: Error) => void;
}

export class Keeper {
  readonly url: string;
  readonly #logFile: string;
  readonly #child: ChildProcess;
  /** In the order in which they were asked. */
  readonly #asked: Asked[];

  private constructor(child: ChildProcess, asked: Asked[], { url, logFile }: Required<KeeperAnswer>) {
    this.#child = child;
    this.#asked = asked;
    this.url = url;
    this.#logFile = logFile;
  }

  /** Starts a server of the run's own. @throws with its stderr when it cannot. */
  static async start(): Promise<Keeper> {
    const child = spawn(process.execPath, ["scripts/run.mjs", "torture/keeperProcess.ts"], {
      stdio: ["pipe", "pipe", "pipe"],
      // Ctrl-C is for the harness; the pipe tells the keeper.
      detached: true,
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr = `${stderr}${text}`.slice(-4_000);
    });
    const asked: Asked[] = [];
    createInterface({ input: child.stdout }).on("line", (line) =>
      asked.shift()?.resolve(JSON.parse(line) as KeeperAnswer),
    );
    child.once("exit", () => {
      for (const { reject } of asked.splice(0)) reject(new Error(`the keeper has ended:\n${stderr}`));
    });
    const facts = await new Promise<KeeperAnswer>((resolve, reject) => asked.push({ resolve, reject }));
    const { url, logFile } = facts;
    if (url === undefined || logFile === undefined) throw new Error("the keeper said nothing of its server");
    return new Keeper(child, asked, { url, logFile });
  }

  watch(pid: number): void {
    this.#send({ do: "watch", pid });
  }

  forget(pid: number): void {
    this.#send({ do: "forget", pid });
  }

  /** Ends the server without a farewell. */
  async crash(signal: "SIGKILL" | "SIGQUIT"): Promise<void> {
    await this.#ask({ do: "crash", signal });
  }

  /** Resolves when the server takes connections again. */
  async restart(): Promise<void> {
    await this.#ask({ do: "restart" });
  }

  /** What the server has logged. */
  log(): string {
    return readFileSync(this.#logFile, "utf8");
  }

  /** Stops the server and removes its files. */
  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const exit = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.stdin?.end();
    await exit;
  }

  #ask(request: KeeperRequest): Promise<KeeperAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null)
        return reject(new Error("the keeper has ended"));
      this.#asked.push({ resolve, reject });
      this.#send(request);
    });
  }

  #send(request: KeeperRequest): void {
    this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
  }
}
