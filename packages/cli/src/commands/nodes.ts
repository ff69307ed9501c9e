// `gen-durable nodes`: who is alive.

import type { Command } from "commander";
import {
  type DatabaseFlags,
  examples,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { type Column, formatDuration, print, printJson, stdoutColors, table } from "../output.js";
import type { NodeReport } from "../reports.js";

export function nodesCommand(): Command {
  return withJson(withDatabase(newCommand("nodes", "list the nodes of this database, and what each holds")))
    .addHelpText("after", examples("gen-durable nodes", "gen-durable nodes --json | jq '.[].id'"))
    .action(async (flags: DatabaseFlags & OutputFlags) => {
      const { withDatabaseConnection } = await import("../project.js");
      const { readNodes } = await import("../reports.js");
      const nodes = await withDatabaseConnection(flags, ({ connection, statements, settings }) =>
        readNodes(connection, statements, settings.nodeTimeoutMs),
      );
      if (flags.json === true) printJson(nodes);
      else if (nodes.length === 0) print("no node is running");
      else print(nodeTable(nodes));
    });
}

/** Nodes as a table for people. */
export function nodeTable(nodes: readonly NodeReport[]): string {
  const colors = stdoutColors();
  const columns: Column[] = [
    { title: "NODE" },
    { title: "INSTANCE" },
    { title: "HOST" },
    { title: "PID", align: "right" },
    { title: "VERSION" },
    { title: "UP", align: "right" },
    { title: "STATE", paint: (text) => (text.trim() === "alive" ? colors.green(text) : colors.red(text)) },
    { title: "EXECUTING", align: "right" },
    { title: "QUEUES" },
  ];
  const rows = nodes.map((node) => [
    node.id,
    node.instance,
    node.hostname,
    String(node.pid),
    node.version,
    formatDuration(node.upMs),
    node.isAlive ? "alive" : `silent ${formatDuration(node.silentMs)}`,
    String(node.executing),
    node.queues.length === 0 ? "-" : node.queues.join(","),
  ]);
  return table(columns, rows, colors);
}
