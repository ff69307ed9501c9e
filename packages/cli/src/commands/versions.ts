// `gen-durable versions`: which versions of which machine still have instances, and who can run them; when old code may go.

import type { Command } from "commander";
import { Refusal } from "../exit.js";
import {
  type DatabaseFlags,
  examples,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { type Column, formatDuration, print, printJson, stdoutColors, table } from "../output.js";
import type { VersionReport } from "../reports.js";

const AFTER_HELP = `
STATE tells what to do with a version's code:
  newest    new instances get it; keep it
  in use    instances live; keep it on some node that serves their queues
  orphaned  instances live and no running node knows it: deploy it again
  idle      nothing lives; its code can go. Failed instances that are to be retried still need it

Exit status 1 when the machine is unknown. The table is counted as a whole, which takes seconds where it has many millions of rows.
${examples(
  "gen-durable versions",
  "gen-durable versions checkout",
  `gen-durable versions --json | jq '.[] | select(.state == "orphaned")'`,
)}`;

export function versionsCommand(): Command {
  return withJson(
    withDatabase(
      newCommand(
        "versions",
        "count what each version of each machine still has to do, and the nodes that know it",
      ),
    ),
  )
    .argument("[fsm]", "one machine only")
    .addHelpText("after", AFTER_HELP)
    .action(async (fsm: string | undefined, flags: DatabaseFlags & OutputFlags) => {
      const { withDatabaseConnection } = await import("../project.js");
      const { readVersions } = await import("../reports.js");
      const versions = await withDatabaseConnection(flags, ({ connection, statements, settings }) =>
        readVersions(connection, statements, { nodeTimeoutMs: settings.nodeTimeoutMs, fsm: fsm ?? null }),
      );
      // Whoever asks whether code may go must not hear "nothing" because of a misspelt name.
      if (versions.length === 0 && fsm !== undefined)
        throw new Refusal(`no machine is named "${fsm}": no node has loaded it, and it has no instance`);
      if (flags.json === true) printJson(versions);
      else if (versions.length === 0) print("no machine is known");
      else print(versionTable(versions));
    });
}

function versionTable(versions: readonly VersionReport[]): string {
  const colors = stdoutColors();
  const right = (title: string): Column => ({ title, align: "right" });
  const columns: Column[] = [
    { title: "MACHINE" },
    right("VERSION"),
    { title: "STATE", paint: (text) => (text.trim() === "orphaned" ? colors.red(text) : text) },
    right("RUNNABLE"),
    right("EXECUTING"),
    right("AWAITING_SIGNAL"),
    right("AWAITING_CHILDREN"),
    right("FAILED"),
    right("OLDEST"),
    right("NODES"),
  ];
  const rows = versions.map(({ fsm, version, state, counts, oldestMs, knownBy }) => [
    fsm,
    String(version),
    state,
    ...[
      counts.runnable,
      counts.executing,
      counts.awaiting_signal,
      counts.awaiting_children,
      counts.failed,
    ].map((n) => n.toLocaleString("en-US")),
    oldestMs === null ? "-" : formatDuration(oldestMs),
    String(knownBy),
  ]);
  return table(columns, rows, colors);
}
