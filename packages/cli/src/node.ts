// Node: starts one node in this process, from a configuration as a user writes it.

import { resolve } from "node:path";
import type { GenDurableConfig } from "#core/config/config.js";
import type { SettingFlags } from "#core/config/flags.js";
import { resolveSettings } from "#core/config/resolve.js";
import { UsageError } from "#core/errors.js";
import { compileModules } from "./compile.js";
import { chooseDatabase } from "./databaseChoice.js";
import { createLog } from "./logs.js";
import type { NodeLog } from "./node/log.js";
import { type RunningNode, runNode } from "./node/run.js";
import { packageVersion } from "./version.js";

export interface StartOptions {
  /** The project's folder: globs in `fsms` are relative to it, and the embedded server lives in it. Default: the current one. */
  folder?: string;
  /** Migrate the schema first. Default: true; with false an unmigrated schema is refused. */
  migrate?: boolean;
  /** End by itself when nothing is left to do. Default: false. */
  once?: boolean;
  /** Serve /healthz, /readyz and /metrics. Host 127.0.0.1 unless told otherwise; port 0 takes a free one. */
  health?: { port: number; host?: string };
  /** The file that the configuration comes from: clients that steps make read their `insertBatcher` there. */
  configFile?: string;
  /** Settings that go before all others, as the command line's flags do. */
  flags?: SettingFlags;
  /** Ends a start that waits for its database: during a failover it waits for up to a minute. */
  signal?: AbortSignal;
  /** Where log lines go. Default: stderr. */
  log?: NodeLog;
}

/** Loopback: metrics and health are for this machine unless somebody says otherwise. */
const HEALTH_HOST = "127.0.0.1";

/**
 * Starts a node and resolves when it picks work. Its threads import the modules that `config.fsms` names, so definitions
 * are files, not objects. The node is crash-only: when it cannot go on, it logs why and ends the process with status 1.
 * Signals are the caller's: call `stop()` on SIGTERM.
 * @throws UsageError for a configuration, a module or a database that cannot be used; nothing is left running then.
 */
export async function startNode(config: GenDurableConfig, options: StartOptions = {}): Promise<RunningNode> {
  const log = options.log ?? createLog();
  const folder = resolve(options.folder ?? process.cwd());
  const flags = options.flags ?? {};
  const resolved = resolveSettings({ flags, file: config });
  for (const warning of resolved.warnings) log.write("warn", warning);
  const hasQueues = Object.keys(resolved.settings.queues).length > 0;
  if (!hasQueues && options.once === true)
    throw new UsageError(
      "INVALID_CONFIG",
      "queues: a node that serves none has nothing to finish; leave --once out",
      {
        path: "queues",
      },
    );
  // What nobody runs is not loaded either.
  const modules = hasQueues ? await compileModules(resolved.fsms, folder) : [];
  if (hasQueues && modules.length === 0)
    log.write("warn", "no `fsms` are configured: this node knows no machine");
  const chosen = await chooseDatabase(resolved, {
    folder,
    embeddedFlag: flags.embedded === true,
    createsEmbedded: true,
    report: (line) => log.write("warn", line),
  });
  const { settings: database, embedded } = chosen;
  log.write("info", `the database is ${chosen.text}`, { schema: database.schema });
  return runNode({
    settings: {
      ...resolved.settings,
      database: { ...database, owner: `${resolved.settings.instance}/${process.pid}` },
      modules,
    },
    databaseText: chosen.text,
    signal: options.signal,
    version: packageVersion(),
    log,
    once: options.once ?? false,
    migrate: options.migrate ?? true,
    health:
      options.health === undefined
        ? undefined
        : { port: options.health.port, host: options.health.host ?? HEALTH_HOST },
    // What steps find with `createClient()`, or hand to a pool of their own, is the database that the node runs on.
    env: {
      ...process.env,
      ...(database.url === undefined ? {} : { GEN_DURABLE_DATABASE_URL: database.url }),
      ...(database.prepare ? {} : { GEN_DURABLE_PREPARE: "false" }),
      ...(database.ssl === undefined ? {} : { GEN_DURABLE_SSL: JSON.stringify(database.ssl) }),
      GEN_DURABLE_SCHEMA: database.schema,
      ...(options.configFile === undefined ? {} : { GEN_DURABLE_CONFIG: options.configFile }),
    },
    beforeReconnect: async () => {
      const url = await embedded?.ensureRunning();
      if (url === undefined || url === database.url) return;
      // The node's threads have the old URL. Crash-only: whoever starts this process again gives them the new one.
      log.write("error", "the embedded Postgres came back on another port; this node ends, start it again");
      await log.flush();
      process.exit(1);
    },
    afterEnd: async () => {
      await embedded?.release();
    },
  });
}
