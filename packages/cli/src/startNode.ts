// StartNode: the door to node.ts for the public exports. Every executor thread imports those for its definitions; what
// only a node needs (the compiler, the embedded server, the coordinator) is loaded when one is started.

import type { GenDurableConfig } from "#core/config/config.js";
import type { RunningNode } from "./node/run.js";
import type { StartOptions } from "./node.js";

export type { StartOptions } from "./node.js";

/**
 * Starts a node and resolves when it picks work. Its threads import the modules that `config.fsms` names, so definitions
 * are files, not objects. The node is crash-only: when it cannot go on, it logs why and ends the process with status 1.
 * Signals are the caller's: call `stop()` on SIGTERM.
 * @throws UsageError for a configuration, a module or a database that cannot be used; nothing is left running then.
 */
export async function startNode(config: GenDurableConfig, options?: StartOptions): Promise<RunningNode> {
  const node = await import("./node.js");
  return node.startNode(config, options);
}
