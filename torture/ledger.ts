// Ledger: what the harness knows without the database: which answers its calls were given, which processes ended when,
// and when what was troubled. Written into the database only when it is checked.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type pg from "pg";

export interface Ack {
  /** inserted, duplicate, signalled, ended, cancelled, retried */
  kind: string;
  /** The work's number. */
  w: number;
  id: number;
  sig?: number;
  key?: string;
  value?: unknown;
  /** When the call began and when it was answered, on the harness's clock, which is the database's. */
  fromMs: number;
  atMs: number;
}

export interface Trouble {
  /** The process; null: all. */
  pid: number | null;
  kind: string;
  fromMs: number;
  /** null: it goes on. */
  toMs: number | null;
}

const CHUNK = 5_000;

export class Ledger {
  readonly acks: Ack[] = [];
  readonly troubles: Trouble[] = [];
  readonly ends: { pid: number; atMs: number }[] = [];
  readonly #journal: string;

  /** `journal`: the folder into which the steps write that they have begun. */
  constructor(journal: string) {
    this.#journal = journal;
  }

  ack(ack: Omit<Ack, "atMs">): void {
    this.acks.push({ ...ack, atMs: Date.now() });
  }

  /** Notes a trouble that begins; call the answer when it is over. */
  trouble(pid: number | null, kind: string, fromMs = Date.now()): () => void {
    const trouble: Trouble = { pid, kind, fromMs, toMs: null };
    this.troubles.push(trouble);
    return () => {
      trouble.toMs = Date.now();
    };
  }

  ended(pid: number): void {
    this.ends.push({ pid, atMs: Date.now() });
  }

  /** Writes everything into the harness's tables, in place of what was there. */
  async write(client: pg.ClientBase): Promise<void> {
    await client.query("TRUNCATE torture.acks, torture.ends, torture.troubles, torture.begun");
    await insert(client, this.acks, "acks", (ack) => [
      ack.kind,
      ack.w,
      ack.id,
      ack.sig ?? null,
      ack.key ?? null,
      ack.value === undefined ? null : JSON.stringify(ack.value),
      new Date(ack.fromMs),
      new Date(ack.atMs),
    ]);
    await insert(client, this.ends, "ends", ({ pid, atMs }) => [pid, new Date(atMs)]);
    await insert(client, this.troubles, "troubles", ({ pid, kind, fromMs, toMs }) => [
      pid,
      kind,
      new Date(fromMs),
      new Date(toMs ?? Date.now()),
    ]);
    await insert(client, this.#readJournal(), "begun", (row) => row);
    await client.query("ANALYZE torture.acks, torture.begun, torture.history, torture.runs, torture.inbox");
  }

  /** Lines of "id visit attempt", a file a process. The last one may be cut. */
  #readJournal(): number[][] {
    return readdirSync(this.#journal).flatMap((pid) =>
      readFileSync(join(this.#journal, pid), "utf8")
        .split("\n")
        .filter((line) => /^\d+ \d+ \d+$/.test(line))
        .map((line) => [Number(pid), ...line.split(" ").map(Number)]),
    );
  }
}

/** Many rows, a few statements: one parameter a column. */
async function insert<T>(
  client: pg.ClientBase,
  rows: readonly T[],
  table: "acks" | "ends" | "troubles" | "begun",
  valuesOf: (row: T) => unknown[],
): Promise<void> {
  for (let first = 0; first < rows.length; first += CHUNK) {
    const lines = rows.slice(first, first + CHUNK).map(valuesOf);
    const columns = (lines[0] ?? []).map((_, column) => lines.map((line) => line[column]));
    const types = TYPES[table];
    const arrays = columns.map((_, column) => `$${column + 1}::${types[column]}[]`).join(", ");
    await client.query(`INSERT INTO torture.${table} SELECT * FROM unnest(${arrays})`, columns);
  }
}

const TYPES = {
  acks: ["text", "int", "bigint", "int", "text", "jsonb", "timestamptz", "timestamptz"],
  ends: ["int", "timestamptz"],
  troubles: ["int", "text", "timestamptz", "timestamptz"],
  begun: ["int", "bigint", "int", "int"],
} as const;
