// Readable: a bunyan record as a line for people.

import { inspect } from "node:util";
import type { Colors } from "./colors.js";

const FATAL = 60;
const ERROR = 50;
const WARN = 40;
const INFO = 30;
const CLOCK = { from: 11, to: 23 };
/** Fields of every record, which a line shows in its own way or not at all. */
const SHOWN = new Set(["name", "hostname", "pid", "level", "msg", "time", "v", "err", "component"]);
const VALUE_CHARS_MAX = 200;

/** `18:43:41.066 INFO  the node is running  node=n1 workers=2`, errors with their stack below. */
export function formatRecord(record: Record<string, unknown>, colors: Colors): string {
  const level = Number(record.level ?? INFO);
  const fields = Object.entries(record)
    .filter(([name]) => !SHOWN.has(name))
    .map(([name, value]) => colors.dim(`${name}=${formatValue(value)}`));
  const words = [
    colors.dim(formatTime(record.time)),
    formatLevel(level, colors),
    String(record.msg ?? ""),
    ...(fields.length > 0 ? [` ${fields.join(" ")}`] : []),
  ];
  return words.join(" ") + formatError(record.err, colors);
}

function formatTime(time: unknown): string {
  const date = time instanceof Date ? time : new Date(String(time ?? ""));
  const text = Number.isNaN(date.getTime()) ? new Date().toISOString() : date.toISOString();
  return text.slice(CLOCK.from, CLOCK.to);
}

function formatLevel(level: number, colors: Colors): string {
  if (level >= FATAL) return colors.bold(colors.red("FATAL"));
  if (level >= ERROR) return colors.red("ERROR");
  if (level >= WARN) return colors.yellow("WARN ");
  if (level >= INFO) return colors.green("INFO ");
  return colors.cyan("DEBUG");
}

function formatValue(value: unknown): string {
  if (typeof value === "string") return /^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  return inspect(value, { breakLength: Number.POSITIVE_INFINITY, depth: 4 }).slice(0, VALUE_CHARS_MAX);
}

function formatError(error: unknown, colors: Colors): string {
  if (typeof error !== "object" || error === null) return "";
  const { message, stack, code } = error as { message?: unknown; stack?: unknown; code?: unknown };
  const text =
    typeof stack === "string" ? stack : [code, message].filter((part) => part !== undefined).join(" ");
  return text === "" ? "" : `\n${colors.dim(text.replaceAll(/^/gm, "    "))}`;
}
