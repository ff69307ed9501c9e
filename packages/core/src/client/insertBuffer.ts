// InsertBuffer: rows of callers that do not wait for their insert. They are checked when they come and written together soon
// after; until then they are in this process's memory and nowhere else, which is what such a caller accepts.
// B1  Every row is written, or its loss is said (a warning of the process).
// B2  At most `maxBuffered` rows wait. One more is written at once, and its caller waits for that: back-pressure.
// B3  A database that does not answer costs no row: they wait and are tried again, until close() has tried once more.
//     A connection that is lost before it answered may have written them: then those without a correlation key are there twice.

import { GenDurableError } from "../errors.js";
import { describeError } from "../json.js";
import type { ChildInsert } from "../protocol/outcome.js";

/** Wait after a failed insert. */
const RETRY_MS = 250;

export interface InsertBatcher {
  /** Rows that start an insert; absent: 100. */
  maxRows?: number | undefined;
  /** Milliseconds after the first row that start an insert; absent: 15. */
  maxDelayMs?: number | undefined;
  /** Rows that wait at most; beyond it, and at 0, a row is written at once. Absent: 10,000. */
  maxBuffered?: number | undefined;
}

export interface InsertBufferOptions {
  maxRows: number;
  maxDelayMs: number;
  maxBuffered: number;
  insert(rows: readonly ChildInsert[]): Promise<unknown>;
}

export class InsertBuffer {
  readonly #options: InsertBufferOptions;
  #rows: ChildInsert[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #closed = false;

  constructor(options: InsertBufferOptions) {
    this.#options = options;
  }

  /** Takes a row. Resolves at once, or, where no more may wait, when the row is written. */
  async add(row: ChildInsert): Promise<void> {
    const { maxRows, maxDelayMs, maxBuffered, insert } = this.#options;
    if (this.#closed || this.#rows.length >= maxBuffered) {
      await insert([row]);
      return;
    }
    this.#rows.push(row);
    if (this.#rows.length >= maxRows) this.#wakeIn(0);
    else if (this.#timer === undefined) this.#wakeIn(maxDelayMs);
  }

  /** Writes what waits. @throws what the last try failed with; the rows are lost then */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#writing;
    clearTimeout(this.#timer);
    const rows = this.#rows;
    this.#rows = [];
    if (rows.length > 0) await this.#options.insert(rows);
  }

  #wakeIn(delayMs: number): void {
    clearTimeout(this.#timer);
    // One insert at a time; what comes meanwhile goes with the next.
    if (this.#writing !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#writing = this.#write().finally(() => {
        this.#writing = undefined;
        if (this.#rows.length > 0 && this.#timer === undefined) this.#wakeIn(this.#options.maxDelayMs);
      });
    }, delayMs);
  }

  async #write(): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    try {
      await this.#options.insert(rows);
    } catch (error) {
      if (error instanceof GenDurableError && error.retryable) {
        this.#rows = [...rows, ...this.#rows];
        if (!this.#closed) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        return;
      }
      process.emitWarning(`${rows.length} buffered inserts were lost: ${describeError(error)}`, {
        type: "GenDurableWarning",
        code: "ERR_GEN_DURABLE_INSERTS_LOST",
      });
    }
  }
}
