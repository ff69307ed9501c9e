// `gen-durable list`: instances, newest first, a page at a time.

import type { Command } from "commander";
import type { InstanceSummary } from "#core/client/view.js";
import { STATUSES } from "#core/instance.js";
import {
  collect,
  type DatabaseFlags,
  examples,
  instanceId,
  integer,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { type Column, formatDuration, print, printJson, stdoutColors, table } from "../output.js";
import { status } from "./insert.js";

interface ListFlags extends DatabaseFlags, OutputFlags {
  status?: string[];
  fsm?: string;
  queue?: string;
  step?: string;
  key?: string;
  parent?: number;
  limit?: number;
  after?: number;
}

const LIMIT = 20;
/** What one page of the client's `list` may have (core/client/view.ts). */
const LIMIT_MAX = 10_000;
const ERROR_CHARS = 60;

export function listCommand(): Command {
  return withJson(withDatabase(newCommand("list", "list instances, newest first")))
    .option("-s, --status <statuses>", `${STATUSES.join(", ")}; several with commas`, collect)
    .option("--fsm <name>", "only of this machine")
    .option("-q, --queue <name>", "only of this queue")
    .option("--step <name>", "only at this step")
    .option("--key <key>", "only the one that occupies this correlation key")
    .option("--parent <id>", "only the children of this instance", instanceId)
    .option("-n, --limit <n>", `at most so many (${LIMIT})`, integer(1, LIMIT_MAX))
    .option("--after <id>", "the page after this one", instanceId)
    .addHelpText(
      "after",
      examples(
        "gen-durable list --status failed",
        "gen-durable list --fsm checkout --status runnable,executing --limit 100",
        "gen-durable list --json --after 1234",
      ),
    )
    .action(async (flags: ListFlags) => {
      const { withClient } = await import("../project.js");
      const page = await withClient(flags, {}, (client) =>
        client.list(
          {
            status: flags.status?.map(status),
            fsm: flags.fsm,
            queue: flags.queue,
            step: flags.step,
            correlationKey: flags.key,
            parentId: flags.parent,
          },
          { limit: flags.limit ?? LIMIT, after: flags.after },
        ),
      );
      if (flags.json === true) return printJson(page);
      print(page.instances.length === 0 ? "no instances" : instanceTable(page.instances));
      if (page.next !== null) print(stdoutColors().dim(`\nmore: --after ${page.next}`));
    });
}

function instanceTable(instances: readonly InstanceSummary[]): string {
  const colors = stdoutColors();
  const paint = (text: string): string => {
    if (text.trim() === "failed") return colors.red(text);
    return text.trim() === "done" ? colors.green(text) : colors.cyan(text);
  };
  const columns: Column[] = [
    { title: "ID", align: "right" },
    { title: "FSM" },
    { title: "STEP" },
    { title: "STATUS", paint },
    { title: "QUEUE" },
    { title: "ATTEMPT", align: "right" },
    { title: "UPDATED", align: "right" },
    { title: "KEY" },
    { title: "" },
  ];
  const rows = instances.map((it) => [
    String(it.id),
    it.version === 1 ? it.fsm : `${it.fsm} v${it.version}`,
    it.step,
    it.status,
    it.queue,
    String(it.attempt),
    `${formatDuration(Math.max(0, Date.now() - it.updatedAt.getTime()))} ago`,
    it.correlationKey ?? "",
    note(it),
  ]);
  return table(columns, rows, colors);
}

/** What a person would want to know next. */
function note(it: InstanceSummary): string {
  if (it.cancelRequested) return "is asked to cancel";
  switch (it.status) {
    case "awaiting_signal":
      return `waits for ${it.awaits.join(", ")}`;
    case "awaiting_children":
      return `waits for ${it.childrenPending} of its children`;
    case "runnable": {
      const waitMs = it.eligibleAt.getTime() - Date.now();
      return waitMs > 0 ? `due in ${formatDuration(waitMs)}` : firstLine(it.error);
    }
    default:
      return firstLine(it.error);
  }
}

function firstLine(error: string | null): string {
  const line = error?.split("\n")[0] ?? "";
  return line.length > ERROR_CHARS ? `${line.slice(0, ERROR_CHARS)}...` : line;
}
