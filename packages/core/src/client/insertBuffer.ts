// InsertBuffer: rows of callers that do not wait for their insert. They are checked when they come and written together soon
// after, a statement for many; until then they are in this process's memory and nowhere else, which is what such a caller accepts.
// B1  Every row that was taken is written, or its loss is said: by the next flush() or close(), by a warning of the process, and
//     by the event `gen-durable:inserts`, which each failed statement publishes.
// B2  At most `maxBuffered` rows and BYTES_MAX bytes wait. One more is written at once, and its caller waits for that: back-pressure.
// B3  A database that does not answer costs no row: they wait and are tried again, until close() has tried once more.
//     A connection that is lost before it answered may have written them: then those without a correlation key are there twice.
// B4  A row that the database refuses for its own sake costs no other: the statement is cut in halves until it stands alone.
// B5  One statement at a time, so that rows are written in the order in which they came.

import { channel } from "node:diagnostics_channel";
import { classifyFailure } from "../database/failure.js";
import { TransientError, UsageError } from "../errors.js";
import { describeError } from "../errorText.js";
import { EVENTS } from "../events.js";
import type { ChildInsert } from "../protocol/outcome.js";
import { CHUNK_BYTES_MAX, CHUNK_ROWS_MAX, type InsertResult } from "./insert.js";
import { leaveOpenBuffers, type OpenBuffer, openBuffers } from "./openBuffers.js";

/** Waits after failed inserts: the first, and the longest. */
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5_000;
/** B2: bytes of state that wait. */
const BYTES_MAX = 64 * 1024 * 1024;

export interface InsertBatcher {
  /** Rows that start an insert; absent: 100. */
  maxRows?: number | undefined;
  /** Milliseconds after the first row that start an insert; absent: 15. */
  maxDelayMs?: number | undefined;
  /** Rows that wait at most; beyond it, and at 0, a row is written at once. Absent: 10,000. */
  maxBuffered?: number | undefined;
}

/** What became of buffered inserts. */
export interface InsertFlush {
  inserted: number;
  /** Rows whose correlation key was occupied: they were not written. */
  duplicates: number;
}

export interface InsertBufferOptions {
  maxRows: number;
  maxDelayMs: number;
  maxBuffered: number;
  /** Writes rows in one statement. */
  insert(rows: readonly ChildInsert[]): Promise<readonly InsertResult[]>;
}

/** The batcher with its defaults; without one every row is written at once. */
export function completeBatcher(batcher: InsertBatcher | false | undefined) {
  if (batcher === undefined || batcher === false) return { maxRows: 1, maxDelayMs: 0, maxBuffered: 0 };
  const { maxRows = 100, maxDelayMs = 15, maxBuffered = 10_000 } = batcher;
  return { maxRows, maxDelayMs, maxBuffered };
}

export class InsertBuffer implements OpenBuffer {
  readonly #options: InsertBufferOptions;
  #rows: ChildInsert[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #retryMs = RETRY_MS_MIN;
  #lost: { rows: number; cause: unknown } | undefined;
  #counts: InsertFlush = { inserted: 0, duplicates: 0 };
  #closed = false;

  constructor(options: InsertBufferOptions) {
    this.#options = options;
  }

  /** Takes a row. Resolves at once, or, where no more may wait, when the row is written. */
  async add(row: ChildInsert): Promise<void> {
    if (this.#closed) throw new UsageError("CLIENT_CLOSED", "the client is closed: create another one");
    const { maxRows, maxDelayMs, maxBuffered, insert } = this.#options;
    if (this.#rows.length >= maxBuffered || this.#bytes >= BYTES_MAX) {
      this.#count(await insert([row]));
      return;
    }
    if (this.#rows.length === 0) openBuffers().add(this);
    this.#rows.push(row);
    this.#bytes += row.state.length;
    if (this.#rows.length >= maxRows) this.#wakeIn(0);
    else if (this.#timer === undefined) this.#wakeIn(maxDelayMs);
  }

  /**
   * Writes what has been taken until now and answers what became of the rows since the last flush. @throws what the first
   * failed try throws (the rows still wait, and are tried again by themselves); TransientError INSERTS_LOST when rows
   * were refused by the database and are gone (B1)
   */
  async flush(): Promise<InsertFlush> {
    await this.#writing?.catch(() => undefined);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    let left = this.#rows.length;
    while (left > 0 && this.#rows.length > 0) {
      const before = this.#rows.length;
      await this.#writeNow();
      left -= before - this.#rows.length;
    }
    const counts = this.#counts;
    this.#counts = { inserted: 0, duplicates: 0 };
    const lost = this.#lost;
    this.#lost = undefined;
    if (lost !== undefined) throw lostError(lost.rows, lost.cause);
    return counts;
  }

  /** Writes what waits, and takes no more. @throws TransientError INSERTS_LOST when rows are lost, now or since the last flush */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    try {
      await this.flush();
    } catch (error) {
      const rows = this.#rows.splice(0);
      leaveOpenBuffers(this);
      if (rows.length === 0) throw error;
      throw lostError(rows.length, error);
    } finally {
      clearTimeout(this.#timer);
    }
  }

  #wakeIn(delayMs: number): void {
    if (this.#closed || this.#writing !== undefined) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // A failure is told by flush() and close(); here it is tried again.
      this.#writeNow().catch(() => undefined);
    }, delayMs);
  }

  /** B5. @throws when the database does not take the rows; they wait again. */
  async #writeNow(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing.catch(() => undefined);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#write();
    let nextMs = 0;
    try {
      await this.#writing;
      this.#retryMs = RETRY_MS_MIN;
    } catch (error) {
      nextMs = this.#retryMs;
      this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
      throw error;
    } finally {
      this.#writing = undefined;
      if (this.#rows.length === 0) leaveOpenBuffers(this);
      else
        this.#wakeIn(
          Math.max(nextMs, this.#rows.length >= this.#options.maxRows ? 0 : this.#options.maxDelayMs),
        );
    }
  }

  async #write(): Promise<void> {
    const rows = this.#take();
    if (rows.length === 0) return;
    try {
      await this.#insert(rows);
    } catch (error) {
      publishFailure({ rows: rows.length - this.#settled, lost: false, error });
      this.#rows.unshift(...rows.slice(this.#settled));
      for (const row of rows.slice(this.#settled)) this.#bytes += row.state.length;
      throw error;
    }
  }

  /** How many rows of the statement under way are written or lost, from its beginning. */
  #settled = 0;

  /** The oldest rows, as many as one statement carries. */
  #take(): ChildInsert[] {
    let bytes = 0;
    let count = 0;
    for (const { state } of this.#rows) {
      if (count >= CHUNK_ROWS_MAX || (count > 0 && bytes + state.length > CHUNK_BYTES_MAX)) break;
      bytes += state.length;
      count++;
    }
    this.#bytes -= bytes;
    this.#settled = 0;
    return this.#rows.splice(0, count);
  }

  /** B4. */
  async #insert(rows: readonly ChildInsert[]): Promise<void> {
    try {
      this.#count(await this.#options.insert(rows));
      this.#settled += rows.length;
    } catch (error) {
      const failure = classifyFailure(error);
      if (failure !== "data" && failure !== "constraint") throw error;
      if (rows.length === 1) {
        this.#settled++;
        this.#lose(1, error);
        return;
      }
      const half = rows.length >> 1;
      await this.#insert(rows.slice(0, half));
      await this.#insert(rows.slice(half));
    }
  }

  #count(results: readonly InsertResult[]): void {
    const inserted = results.filter((result) => result.ok).length;
    this.#counts = {
      inserted: this.#counts.inserted + inserted,
      duplicates: this.#counts.duplicates + results.length - inserted,
    };
  }

  /** B1. */
  #lose(rows: number, cause: unknown): void {
    this.#lost = { rows: (this.#lost?.rows ?? 0) + rows, cause };
    publishFailure({ rows, lost: true, error: cause });
    process.emitWarning(lostError(rows, cause).message, {
      type: "GenDurableWarning",
      code: "ERR_GEN_DURABLE_INSERTS_LOST",
    });
  }
}

function publishFailure(failure: { rows: number; lost: boolean; error: unknown }): void {
  channel(`gen-durable:${EVENTS.inserts}`).publish(failure);
}

function lostError(rows: number, cause: unknown): TransientError {
  return new TransientError(
    "INSERTS_LOST",
    `${rows} buffered insert${rows === 1 ? " was" : "s were"} lost: ${describeError(cause)}`,
    { rows, cause },
  );
}
