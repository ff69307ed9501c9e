// Inputs: what waits for a step beside its state: unread signals and children, as JSON text. Read for many rows at once, and only
// for those that are known to have some: by the picker after a claim, by the flusher for steps that run ahead.

import type { JsonText } from "../instance.js";
import type { Runner } from "./connection.js";
import type { Statements } from "./statements.js";

/** The inbox of one row; the rest is presented at a later visit. */
const INBOX_SIGNALS_MAX = 10_000;
const INBOX_BYTES_MAX = 8 * 1024 * 1024;
/** The results of one row's children; past it children come without their results. */
const CHILDREN_BYTES_MAX = 8 * 1024 * 1024;
const CHILDREN_MAX = 100_000;

/** JSON texts by instance id; a row without any is absent. */
export type Inputs = ReadonlyMap<number, JsonText>;

const NONE: Inputs = new Map();

export async function loadInboxes(
  connection: Runner,
  statements: Statements,
  ids: readonly number[],
): Promise<Inputs> {
  if (ids.length === 0) return NONE;
  const rows = await connection.run<{ id: number; inbox: string }>(statements.get("picker/load_inboxes"), [
    ids,
    INBOX_SIGNALS_MAX,
    INBOX_BYTES_MAX,
  ]);
  return new Map(rows.map((row) => [row.id, row.inbox]));
}

export async function loadChildren(
  connection: Runner,
  statements: Statements,
  ids: readonly number[],
): Promise<Inputs> {
  if (ids.length === 0) return NONE;
  const rows = await connection.run<{ id: number; children: string }>(
    statements.get("picker/load_children"),
    [ids, CHILDREN_BYTES_MAX, CHILDREN_MAX],
  );
  return new Map(rows.map((row) => [row.id, row.children]));
}
