// Invariant: one of the promises, and how it is judged: by the tables, by what the triggers recorded, by what the steps told,
// and by what the harness was answered. Nothing here knows the engine's code.

import type pg from "pg";
import type { Mismatch } from "../caller.js";
import type { Watched } from "./watcher.js";

export interface CheckScene {
  query<R extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<R[]>;
  /** What the server has logged. */
  serverLog: string;
  mismatches: readonly Mismatch[];
  /** Log records of nodes in which the engine says that a promise of its own is broken. */
  brokenLogs: readonly string[];
  watched: Watched;
  /** Whether all work has come to its end, or time for it was up: what is not over now never will be. */
  isQuiet: boolean;
}

export interface Finding {
  /** The instance it is about, where there is one. */
  id: number | null;
  text: string;
}

export interface Verdict {
  /** How often the promise was put to the test. */
  cases: number;
  broken: Finding[];
}

export interface Invariant {
  number: number;
  title: string;
  check(scene: CheckScene): Promise<Verdict>;
}

/** Findings that a query lists as rows of (id, text). */
export async function findings(
  scene: CheckScene,
  text: string,
  values: readonly unknown[] = [],
): Promise<Finding[]> {
  const rows = await scene.query<{ id: number | null; text: string }>(text, values);
  return rows.map(({ id, text }) => ({ id: id === null ? null : Number(id), text }));
}

/** The number that a query answers as `n`. */
export async function count(scene: CheckScene, text: string): Promise<number> {
  const [row] = await scene.query<{ n: number }>(text);
  return Number(row?.n ?? 0);
}
