// `gen-durable status`: what there is to do, who does it, and what nobody does.

import type { Command } from "commander";
import { STATUSES } from "#core/instance.js";
import {
  type DatabaseFlags,
  examples,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { type Column, count, formatDuration, print, printJson, stdoutColors, table } from "../output.js";
import type { QueueReport, StalledReport } from "../reports.js";
import { nodeTable } from "./nodes.js";

export function statusCommand(): Command {
  return withJson(
    withDatabase(
      newCommand(
        "status",
        "count the instances by queue and status; show the nodes, and work that nobody takes",
      ),
    ),
  )
    .addHelpText("after", examples("gen-durable status", "gen-durable status --json | jq .stalled"))
    .action(async (flags: DatabaseFlags & OutputFlags) => {
      const { withDatabaseConnection } = await import("../project.js");
      const { readNodes, readQueues, readStalled } = await import("../reports.js");
      const status = await withDatabaseConnection(
        flags,
        async ({ connection, statements, settings, databaseText }) => ({
          database: databaseText,
          schema: settings.database.schema,
          queues: await readQueues(connection, statements),
          nodes: await readNodes(connection, statements, settings.nodeTimeoutMs),
          stalled: await readStalled(connection, statements, settings.nodeTimeoutMs),
        }),
      );
      if (flags.json === true) return printJson(status);
      const { bold, dim, yellow } = stdoutColors();
      print(`${dim("database")} ${status.database}, schema ${status.schema}\n`);
      print(status.queues.length === 0 ? "no instances" : queueTable(status.queues));
      print(`\n${status.nodes.length === 0 ? "no node is running" : nodeTable(status.nodes)}`);
      if (status.stalled.length > 0) {
        print(`\n${bold(yellow("work that nobody takes"))}`);
        for (const stalled of status.stalled) print(`  ${describeStalled(stalled)}`);
      }
    });
}

function queueTable(queues: readonly QueueReport[]): string {
  const columns: Column[] = [
    { title: "QUEUE" },
    ...STATUSES.map((status): Column => ({ title: status.toUpperCase(), align: "right" })),
    { title: "DUE", align: "right" },
    { title: "OLDEST DUE", align: "right" },
  ];
  const rows = queues.map(({ queue, counts, due, waitingMs }) => [
    queue,
    ...STATUSES.map((status) => counts[status].toLocaleString("en-US")),
    due.toLocaleString("en-US"),
    waitingMs === null ? "-" : formatDuration(waitingMs),
  ]);
  return table(columns, rows, stdoutColors());
}

function describeStalled({
  reason,
  fsm,
  version,
  queue,
  detail,
  instances,
  oldestId,
}: StalledReport): string {
  const what = `${count(instances, "instance")} of ${fsm} version ${version} in queue ${queue} (first: ${oldestId})`;
  switch (reason) {
    case "unknown_fsm":
      return `${what}: no node has ever loaded this machine in this version`;
    case "unloaded_fsm":
      return `${what}: no running node that serves the queue has loaded this machine in this version`;
    case "unserved_queue":
      return `${what}: no running node serves the queue`;
    case "unknown_rate_limit":
      return `${what}: the rate limit "${detail}" is not configured`;
    case "lease_expired":
      return `${what}: node ${detail} has let its lease run out; a reaper takes it back`;
  }
}
