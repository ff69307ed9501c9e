// Redis: a server of the benchmark's own whose log is synced at every command or every second, where `redis-server` is installed.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { keep } from "../../test/support/keeper.js";
import { freePort } from "../../test/support/server.js";
import { until } from "../../test/support/until.js";

export class Redis {
  readonly url: string;
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(child: ChildProcess, pid: number, folder: string, port: number) {
    this.#child = child;
    this.#folder = folder;
    this.pid = pid;
    this.url = `redis://127.0.0.1:${port}`;
  }

  static version(): string | undefined {
    const { status, stdout } = spawnSync("redis-server", ["--version"], { encoding: "utf8" });
    return status === 0 ? /v=(\S+)/.exec(stdout)?.[1] : undefined;
  }

  static async start(fsync: "always" | "everysec"): Promise<Redis> {
    const folder = mkdtempSync(join(tmpdir(), "gen-durable-redis-"));
    const port = await freePort();
    const child = spawn(
      "redis-server",
      [
        ...["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""],
        ...["--appendonly", "yes", "--appendfsync", fsync],
        // The keeper knows its process by the folder among its arguments.
        ...["--set-proc-title", "no"],
      ],
      { stdio: "ignore" },
    );
    if (child.pid === undefined) throw new Error("redis-server could not be started");
    keep(folder, child.pid);
    await until(() => accepts(port), { describe: "Redis accepts connections" });
    return new Redis(child, child.pid, folder, port);
  }

  async stop(): Promise<void> {
    const exited = new Promise<void>((resolve) => this.#child.once("exit", () => resolve()));
    this.#child.kill("SIGKILL");
    await exited;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: "127.0.0.1", port });
    const answer = (accepted: boolean) => (): void => {
      socket.destroy();
      resolve(accepted);
    };
    socket.once("connect", answer(true));
    socket.once("error", answer(false));
  });
}
