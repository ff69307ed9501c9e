// Usage: what a process and its children have used, as Linux tells it. Elsewhere the answer is NaN, and figures say so.

import { readdirSync, readFileSync } from "node:fs";

/** What /proc counts CPU time in, a second; the same on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;
const MICROSECONDS_PER_TICK = 1_000_000 / TICKS_PER_SECOND;

interface Times {
  parent: number;
  ticks: number;
}

/** CPU time of a process with all its threads, and of its children, dead or alive: microseconds. */
export function cpuMicroseconds(pid: number): number {
  const own = timesOf(pid);
  if (own === undefined) return Number.NaN;
  const children = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => timesOf(Number(name)))
    .filter((times) => times?.parent === pid);
  return children.reduce((sum, times) => sum + (times?.ticks ?? 0), own.ticks) * MICROSECONDS_PER_TICK;
}

/** The most memory that a process has had resident since it began, MiB. */
export function residentPeakMb(pid: number): number {
  return statusMb(pid, "VmHWM");
}

/** The memory that a process has resident now, MiB. */
export function residentMb(pid: number): number {
  return statusMb(pid, "VmRSS");
}

function statusMb(pid: number, line: string): number {
  const match = new RegExp(`^${line}:\\s+(\\d+) kB$`, "m").exec(read(pid, "status") ?? "");
  return match === null ? Number.NaN : Number(match[1]) / 1_024;
}

/** A process's own time and that of the children it has waited for. */
function timesOf(pid: number): Times | undefined {
  const text = read(pid, "stat");
  if (text === undefined) return undefined;
  // The name before it may hold anything, parentheses included.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [user, system, childrenUser, childrenSystem] = fields.slice(11, 15).map(Number);
  return {
    parent: Number(fields[1]),
    ticks: (user ?? 0) + (system ?? 0) + (childrenUser ?? 0) + (childrenSystem ?? 0),
  };
}

/** A file about a process, or undefined: it has just ended, or this is no Linux. */
function read(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return undefined;
  }
}
