// `gen-durable start`: runs a node in this process until it is told to stop.

import { type Command, Option } from "commander";
import { monotonicMs } from "#core/clock.js";
import type { GenDurableConfig } from "#core/config/config.js";
import { UsageError } from "#core/errors.js";
import { EXIT } from "../exit.js";
import type { LogFormat } from "../logs.js";
import type { LogLevel, NodeLog } from "../node/log.js";
import type { RunningNode } from "../node/run.js";
import { address, type DatabaseFlags, examples, integer, newCommand, withDatabase } from "../options.js";

interface StartFlags extends DatabaseFlags {
  workers?: number;
  /** false: `--no-queues`. */
  queues?: string | false;
  instance?: string;
  reaper: boolean;
  gc: boolean;
  migrate: boolean;
  once?: boolean;
  port?: number;
  host?: string;
  drainTimeoutMs?: number;
  logLevel?: LogLevel;
  logFormat?: LogFormat;
}

const PORT_MAX = 65_535;

const AFTER_HELP = `
SIGTERM and SIGINT (Ctrl-C) drain: nothing more is picked, running steps get up to drainTimeoutMs, what they decided is
committed, the rest is handed back. Exit status 0 then, and 1 when something had to be left to other nodes. A second
signal ends the process at once.

Every flag has its key in the config file and its GEN_DURABLE_* variable (docs/cli.md).
${examples(
  "gen-durable start",
  "gen-durable start --workers 8 --queues default=20,mail=5",
  "gen-durable start --no-queues            # maintenance only",
  "gen-durable start --once                 # until nothing is runnable, for cron and tests",
  "gen-durable start --port 9090            # /healthz, /readyz and /metrics on 127.0.0.1:9090",
)}`;

export function startCommand(): Command {
  return withDatabase(newCommand("start", "run a node: it takes work from the database until it is stopped"))
    .option("-w, --workers <n>", "executor threads", integer(1))
    .option(
      "-q, --queues <list>",
      "the queues to serve, each with how many steps run at once: default=10,mail",
    )
    .option("--no-queues", "serve none: reap, collect and fire deadlines only")
    .option("--instance <name>", "this node's name in `nodes` and in the logs")
    .option("--no-reaper", "leave it to other nodes to take back the work of dead ones")
    .option("--no-gc", "leave it to other nodes to remove what ended long ago")
    .option("--no-migrate", "do not create or upgrade the schema: it must be there")
    .option("--once", "end when nothing is runnable any more")
    .addOption(
      new Option("--port <n>", "serve /healthz, /readyz and /metrics over HTTP")
        .argParser(integer(0, PORT_MAX))
        .env("GEN_DURABLE_PORT"),
    )
    .addOption(
      new Option("--host <address>", "where --port listens, if not on 127.0.0.1")
        .argParser(address)
        .env("GEN_DURABLE_HOST"),
    )
    .option("--drain-timeout-ms <ms>", "how long running steps may take when the node stops", integer(0))
    .addOption(
      new Option("--log-level <level>", "the least that is logged")
        .choices(["debug", "info", "warn", "error"])
        .env("GEN_DURABLE_LOG_LEVEL"),
    )
    .addOption(
      new Option("--log-format <format>", "how lines look; text on a terminal, else json")
        .choices(["text", "json"])
        .env("GEN_DURABLE_LOG_FORMAT"),
    )
    .addHelpText("after", AFTER_HELP)
    .action(start);
}

async function start(flags: StartFlags, command: Command): Promise<void> {
  requirePort(flags, command.getOptionValueSource("host") === "env" ? "GEN_DURABLE_HOST=" : "--host ");
  const { createLog } = await import("../logs.js");
  const log = createLog({
    ...(flags.logLevel === undefined ? {} : { level: flags.logLevel }),
    ...(flags.logFormat === undefined ? {} : { format: flags.logFormat }),
  });
  const signals = new StopSignals(log);
  let node: RunningNode;
  try {
    node = await startFrom(flags, log, signals.signal);
  } catch (error) {
    await log.flush();
    throw error;
  }
  signals.attend(node);
  const end = await node.stopped;
  await log.flush();
  // Whatever user code has left open on this thread must not keep a node alive that has ended.
  process.exit(end.clean ? EXIT.ok : EXIT.failure);
}

/** Whoever states an address expects to be served there; without a port nothing would be. @throws UsageError INVALID_OPTION */
function requirePort({ host, port }: StartFlags, stated: string): void {
  if (host === undefined || port !== undefined) return;
  throw new UsageError(
    "INVALID_OPTION",
    `${stated}${host} says where health is served, and no port is stated: add --port <n> (GEN_DURABLE_PORT; 0 for a free one), or state no host`,
    { path: "host" },
  );
}

async function startFrom(flags: StartFlags, log: NodeLog, signal: AbortSignal): Promise<RunningNode> {
  const { startNode } = await import("../node.js");
  const { shortPath } = await import("../compile.js");
  const { loadConfigFile } = await import("../configFile.js");
  const { configOf, namingFile, settingFlags } = await import("../project.js");
  const file = await loadConfigFile(process.cwd(), configOf(flags));
  const origin =
    file.path === undefined
      ? `${file.folder} has no config file: everything has its default`
      : `the config file is ${shortPath(file.path)}`;
  log.write("info", origin);
  // What is in the file is checked by startNode; its type is what it should be.
  const config = file.value as GenDurableConfig;
  const { workers, queues, instance, reaper, gc, drainTimeoutMs, port, host } = flags;
  try {
    return await startNode(config, {
      folder: file.folder,
      ...(file.path === undefined ? {} : { configFile: file.path }),
      migrate: flags.migrate,
      once: flags.once === true,
      signal,
      ...(port === undefined ? {} : { health: { port, ...(host === undefined ? {} : { host }) } }),
      flags: { ...settingFlags(flags), workers, queues, instance, reaper, gc, drainTimeoutMs },
      log,
    });
  } catch (error) {
    throw namingFile(file.path, error);
  }
}

/**
 * A Ctrl-C reaches the whole foreground group, and launchers (npx, npm run, timeout) forward it once more: signals that
 * come so soon after the first are that one again.
 */
const SAME_SIGNAL_MS = 1_000;

/** The first signal drains, a later one ends the process. Before the node runs there is nothing to drain. */
class StopSignals {
  #node: RunningNode | undefined;
  #stoppingSinceMs: number | undefined;
  readonly #abort = new AbortController();

  constructor(log: NodeLog) {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
      process.on(signal, () => {
        if (this.#stoppingSinceMs !== undefined) {
          if (monotonicMs() - this.#stoppingSinceMs > SAME_SIGNAL_MS) process.exit(EXIT.failure);
          return;
        }
        this.#stoppingSinceMs = monotonicMs();
        log.write("info", `${signal}: draining; once more ends the process at once`);
        this.#abort.abort();
        void this.#node?.stop();
      });
    }
  }

  /** Aborted by the first signal. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  attend(node: RunningNode): void {
    this.#node = node;
    if (this.#stoppingSinceMs !== undefined) void node.stop();
  }
}
