// Outdated: rows of chains whose thread is gone and whose current step must end in `handle`: what their last commits made of
// them is read from the database, since the node has only what it claimed.
// OD1  A row that is still ours is given to the crew again; one that is not is let go, as any lost row.

import { setTimeout as sleep } from "node:timers/promises";
import { loadChildren, loadInboxes } from "#core/database/inputs.js";
import { toVisit, type VisitRecord } from "./claimedRows.js";
import type { Database } from "./database.js";
import type { HeldRow, HeldTable } from "./held.js";
import type { Report } from "./report.js";

const RETRY_MS = 250;

export interface OutdatedOptions {
  database: Pick<Database, "run" | "isUp" | "isClosed" | "statements">;
  held: HeldTable;
  report: Report;
  /** The row is as it stands in the database. */
  updated(held: HeldRow): void;
  /** The row is somebody else's now. */
  lost(held: HeldRow): void;
}

/** Reads rows anew; tries for as long as they are held. */
export async function readOutdated(rows: readonly HeldRow[], options: OutdatedOptions): Promise<void> {
  const { database, held, report } = options;
  const generations = new Map(rows.map((row) => [row, row.row.generation]));
  const isHeld = (row: HeldRow): boolean => held.at(row.row.seat, generations.get(row)) === row;
  for (let open = rows.filter(isHeld); open.length > 0 && !database.isClosed; open = open.filter(isHeld)) {
    try {
      const current = await readCurrent(open, database);
      for (const row of open.filter(isHeld)) {
        const record = current.get(row.row.id);
        if (record === undefined) options.lost(row);
        else {
          Object.assign(row.row, record);
          options.updated(row);
        }
      }
      return;
    } catch (error) {
      if (database.isUp) report.trouble("reading rows whose thread is gone", error);
      await sleep(RETRY_MS);
    }
  }
}

function readCurrent(
  rows: readonly HeldRow[],
  database: OutdatedOptions["database"],
): Promise<Map<number, ReturnType<typeof toVisit>>> {
  return database.run("keeper", async (connection) => {
    const { statements } = database;
    const ids = rows.map(({ row }) => row.id);
    const records = await connection.run<VisitRecord>(statements.get("picker/read_claimed"), [
      ids,
      rows.map(({ row }) => row.claim),
    ]);
    const inboxes = await loadInboxes(connection, statements, ids);
    const children = await loadChildren(connection, statements, ids);
    return new Map(records.map((record) => [record.id, toVisit(record, inboxes, children)]));
  });
}
