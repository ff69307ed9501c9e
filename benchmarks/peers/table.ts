// Table: the medians of all engines side by side, and what each one's durability means.

import type { PeerEngine } from "./engines.js";
import type { Figures } from "./run.js";

const COLUMNS: readonly { name: string; title: string; digits: number }[] = [
  { name: "drainRate", title: "drain, jobs/s", digits: 0 },
  { name: "chainRate", title: "chain of 5, steps/s", digits: 0 },
  { name: "fanOutRate", title: "fan-out, children/s", digits: 0 },
  { name: "startMs", title: "idle: to start, ms", digits: 1 },
  { name: "doneMs", title: "to done, ms", digits: 1 },
  { name: "closeStartMs", title: "every 20 ms: to start, ms", digits: 1 },
  { name: "closeDoneMs", title: "to done, ms", digits: 1 },
  { name: "insertRate", title: "bulk insert, rows/s", digits: 0 },
  { name: "nodeCpu", title: "CPU a drained job: process, us", digits: 0 },
  { name: "serverCpu", title: "server, us", digits: 0 },
  { name: "residentMb", title: "process's peak memory, MiB", digits: 0 },
  { name: "startupMs", title: "start-up, ms", digits: 0 },
];

/** Prints a Markdown table, a row an engine; columns nobody measured are left out. */
export function printTable(rows: readonly { engine: PeerEngine; figures: Figures }[]): void {
  const columns = COLUMNS.filter(({ name }) => rows.some(({ figures }) => figures[name] !== undefined));
  const line = (cells: readonly string[]): void => console.log(`| ${cells.join(" | ")} |`);
  line(["", ...columns.map(({ title }) => title)]);
  line(Array(columns.length + 1).fill("---"));
  for (const { engine, figures } of rows)
    line([
      engine.name,
      ...columns.map(
        ({ name, digits }) => figures[name]?.toLocaleString("en", { maximumFractionDigits: digits }) ?? "",
      ),
    ]);
  console.log("\nWhat has happened when it says that a job is done:");
  for (const { engine } of rows) console.log(`- ${engine.name}: ${engine.durability}.`);
}
