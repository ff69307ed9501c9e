// Output: what a command prints on stdout, for people or as JSON. Logs and errors go to stderr.

import { type Colors, colorsFor, hasColors } from "./colors.js";

/** A reader that has seen enough (`| head`) is no failure. */
export function tolerateClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit();
      throw error;
    });
  }
}

/** Prints one line, or several. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Prints a value as JSON: one document, two spaces deep. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value, undefined, 2));
}

export function stdoutColors(): Colors {
  return colorsFor(hasColors(process.stdout));
}

export function stderrColors(): Colors {
  return colorsFor(hasColors(process.stderr));
}

export interface Column {
  title: string;
  align?: "left" | "right";
  paint?: (text: string) => string;
}

/** Lays out rows under their titles. Cells are plain text; colours are added after the widths are known. */
export function table(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  colors: Colors,
): string {
  const widths = columns.map((column, index) =>
    Math.max(column.title.length, ...rows.map((row) => row[index]?.length ?? 0)),
  );
  const line = (cells: readonly string[], paint: (text: string, column: Column) => string): string =>
    columns
      .map((column, index) => {
        const cell = cells[index] ?? "";
        const width = widths[index] ?? 0;
        const isLast = index === columns.length - 1;
        const padded = column.align === "right" ? cell.padStart(width) : isLast ? cell : cell.padEnd(width);
        return paint(padded, column);
      })
      .join("  ")
      .trimEnd();
  return [
    line(
      columns.map(({ title }) => title),
      (text) => colors.dim(text),
    ),
    ...rows.map((row) => line(row, (text, column) => column.paint?.(text) ?? text)),
  ].join("\n");
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** `340 ms`, `12 s`, `3 min`, `2.5 h`, `4 days`. */
export function formatDuration(ms: number): string {
  if (ms < SECOND_MS) return `${Math.round(ms)} ms`;
  if (ms < MINUTE_MS) return `${Math.round(ms / SECOND_MS)} s`;
  if (ms < HOUR_MS) return `${Math.round(ms / MINUTE_MS)} min`;
  if (ms < DAY_MS) return `${(ms / HOUR_MS).toFixed(1)} h`;
  return `${Math.round(ms / DAY_MS)} days`;
}

/** `1 instance`, `2 instances`, `3 processes`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
}
