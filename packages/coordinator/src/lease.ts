// Lease: keeps the claims of this node's held rows alive, and learns which of them are lost.
// LE1  Trust is counted from before the statement that confirmed it was sent, so this node stops believing in a claim
//      before the database's lease runs out.
// LE2  A heartbeat never waits for a user's row lock: a locked row is left out and tried again soon.
// LE3  It runs first when the database is back (database.ts, DB4).
// LE4  An instance may be held twice: under a claim that was taken back while this node was away, and under a new one of this node.
//      What confirms the one says nothing of the other.

import { monotonicMs } from "#core/clock.js";
import type { Connection } from "#core/database/connection.js";
import type { Statements } from "#core/database/statements.js";
import type { Ledger } from "#core/ledger.js";
import { pauseAt } from "#core/pausePoint.js";
import type { AbortReason } from "#core/protocol/executor.js";
import type { HeldRow, HeldTable } from "./held.js";

/** Rows of one heartbeat statement: its locks are held for some milliseconds. */
const LEASE_ROWS_MAX = 500;
/** The part of a lease that is not trusted: clocks drift, and an abort takes its time. */
const MARGIN_PART = 0.05;
const MARGIN_MS_MAX = 5_000;

/** How long a claim may be believed in, from before its statement was sent. */
export function trustMs(leaseTtlMs: number): number {
  return leaseTtlMs - Math.min(leaseTtlMs * MARGIN_PART, MARGIN_MS_MAX);
}

/** What the commit of a step that runs ahead leaves of a lease at least (sql/flusher/apply_outcomes.sql). */
const CHAIN_PART = 0.75;

/** How long a claim that runs ahead may be believed in, from before its commit was sent. */
export function chainTrustMs(leaseTtlMs: number): number {
  return trustMs(leaseTtlMs * CHAIN_PART);
}

export interface LeaseReport {
  extended: number;
  /** Rows that somebody has locked: still ours, not extended. */
  locked: number;
  lost: number;
}

export interface LeaseOptions {
  leaseTtlMs: number;
  heartbeatIntervalMs: number;
  statements: Statements;
  held: HeldTable;
  ledger: Ledger;
  /** The row belongs to somebody else now, or is to be cancelled. */
  abort(held: HeldRow, reason: AbortReason): void;
}

export class Lease {
  readonly #options: LeaseOptions;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** Extends the leases that need it; `all`: every one (after an outage). */
  async extend(connection: Connection, options: { all: boolean }): Promise<LeaseReport> {
    const report = { extended: 0, locked: 0, lost: 0 };
    const rows = this.#rowsToExtend(options.all);
    for (let start = 0; start < rows.length; start += LEASE_ROWS_MAX) {
      await this.#extendBatch(connection, rows.slice(start, start + LEASE_ROWS_MAX), report);
    }
    return report;
  }

  /** Rows come and go within milliseconds: only those are extended whose lease is half a heartbeat old. */
  #rowsToExtend(all: boolean): HeldRow[] {
    const { held, ledger, leaseTtlMs, heartbeatIntervalMs } = this.#options;
    const youngUntilMs = monotonicMs() + trustMs(leaseTtlMs) - heartbeatIntervalMs / 2;
    return held.all().filter(({ row }) => all || ledger.trustedUntilMs(row.seat) <= youngUntilMs);
  }

  async #extendBatch(connection: Connection, batch: readonly HeldRow[], report: LeaseReport): Promise<void> {
    const { statements, leaseTtlMs } = this.#options;
    await pauseAt("lease.due");
    const sentAtMs = monotonicMs();
    const extended = await connection.run<LeaseRecord>(statements.get("lease/extend_leases"), [
      batch.map(({ row }) => row.id),
      batch.map(({ row }) => row.claim),
      leaseTtlMs,
    ]);
    const confirmed = byClaim(extended);
    const missing: HeldRow[] = [];
    for (const heldRow of batch) {
      const record = confirmed.get(tenureOf(heldRow.row));
      if (record === undefined) missing.push(heldRow);
      else this.#confirm(heldRow, record, sentAtMs);
    }
    report.extended += extended.length;
    if (missing.length > 0) await this.#judgeMissing(connection, missing, report);
  }

  #confirm(heldRow: HeldRow, record: LeaseRecord, sentAtMs: number): void {
    // The row may have been flushed, and its seat given away, while the statement ran.
    if (!this.#isHeld(heldRow)) return;
    this.#options.held.trustUntil(heldRow, sentAtMs + trustMs(this.#options.leaseTtlMs));
    if (record.cancel_requested) this.#options.abort(heldRow, "cancelled");
  }

  async #judgeMissing(
    connection: Connection,
    missing: readonly HeldRow[],
    report: LeaseReport,
  ): Promise<void> {
    // A row that was committed in the meantime is not ours any more either; the flusher's answer tells.
    const open = missing.filter((heldRow) => this.#isHeld(heldRow));
    if (open.length === 0) return;
    const owned = await connection.run<LeaseRecord>(this.#options.statements.get("lease/find_owned"), [
      open.map(({ row }) => row.id),
      open.map(({ row }) => row.claim),
    ]);
    const ours = byClaim(owned);
    for (const heldRow of open) {
      const record = ours.get(tenureOf(heldRow.row));
      if (record !== undefined) {
        report.locked++;
        if (record.cancel_requested) this.#options.abort(heldRow, "cancelled");
      } else if (this.#isHeld(heldRow) && this.#options.ledger.mark(heldRow.row.seat) !== "ended") {
        report.lost++;
        this.#options.abort(heldRow, "claim_lost");
      }
    }
  }

  #isHeld({ row }: HeldRow): boolean {
    return this.#options.held.at(row.seat, row.generation) !== undefined;
  }
}

type LeaseRecord = { id: number; claim: string; cancel_requested: boolean };

/** LE4. */
function byClaim(records: readonly LeaseRecord[]): ReadonlyMap<string, LeaseRecord> {
  return new Map(records.map((record) => [tenureOf(record), record]));
}

/** An instance under one of its claims. */
export function tenureOf({ id, claim }: { id: number; claim: string }): string {
  return `${id} ${claim}`;
}
