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

export class Keeper {
  readonly url: string;
  readonly #logFile: string;
  readonly #child: ChildProcess;
  readonly #answers: ((answer: KeeperAnswer) => void)[];

  private constructor(
    child: ChildProcess,
    answers: ((answer: KeeperAnswer) => void)[],
    { url, logFile }: Required<KeeperAnswer>,
  ) {
    this.#child = child;
    this.#answers = answers;
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
    const answers: ((answer: KeeperAnswer) => void)[] = [];
    createInterface({ input: child.stdout }).on("line", (line) =>
      answers.shift()?.(JSON.parse(line) as KeeperAnswer),
    );
    const facts = await new Promise<KeeperAnswer>((resolve, reject) => {
      answers.push(resolve);
      child.once("exit", () => reject(new Error(`the keeper ended:\n${stderr}`)));
    });
    const { url, logFile } = facts;
    if (url === undefined || logFile === undefined) throw new Error("the keeper said nothing of its server");
    return new Keeper(child, answers, { url, logFile });
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
      this.#child.once("exit", () => reject(new Error("the keeper has ended")));
      this.#answers.push(resolve);
      this.#send(request);
    });
  }

  #send(request: KeeperRequest): void {
    this.#child.stdin?.write(`${JSON.stringify(request)}\n`);
  }
}
