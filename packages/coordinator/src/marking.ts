// Marking: puts the rows of one queue on record as begun, and hands them to the crew. The rules of the line are in marks.ts.

import { monotonicMs } from "#core/clock.js";
import type { Database } from "./database.js";
import type { HeldRow, HeldTable } from "./held.js";
import { tenureOf } from "./lease.js";
import { Marks } from "./marks.js";
import type { Report } from "./report.js";

/** What marking needs of the crew. */
export interface MarkingSlots {
  dispatch(rows: readonly HeldRow[]): void;
  freeSlots(queueIndex: number): number;
  unstarted(queueIndex: number): number;
  /** Nothing runs in quarantine, waits for it, or is being marked for it. */
  isQuarantineFree(): boolean;
  /** A row of some queue is being marked for the quarantine, or that is over. */
  reserveQuarantine(isReserved: boolean): void;
}

export interface MarkingOptions {
  queue: string;
  queueIndex: number;
  held: HeldTable;
  database: Pick<Database, "run" | "isUp" | "statements">;
  slots: MarkingSlots;
  report: Report;
  /** Rows have been marked, or could not be. */
  onSettled: () => void;
  /** There are slots, and no row in the line may be marked just now. */
  onPutOff: () => void;
}

export class Marking {
  readonly #options: MarkingOptions;
  readonly #line: Marks;
  #inFlight: Promise<void> | undefined;
  #isStopped = false;

  constructor(options: MarkingOptions) {
    this.#options = options;
    this.#line = new Marks(options.held);
  }

  /** Rows in the line. */
  get count(): number {
    return this.#line.count;
  }

  add(rows: readonly HeldRow[]): void {
    this.#line.add(rows);
  }

  /** Marks and hands out rows of the line while slots are free for them. One statement is in flight at most. */
  start(): void {
    const { database, slots, queueIndex, onPutOff, onSettled } = this.#options;
    if (this.#isStopped || this.#inFlight !== undefined || !database.isUp || this.#line.count === 0) return;
    const free = slots.freeSlots(queueIndex) - slots.unstarted(queueIndex);
    const rows = this.#line.take(free, slots.isQuarantineFree(), monotonicMs());
    if (rows.length === 0) {
      if (free > 0) onPutOff();
      return;
    }
    this.#inFlight = this.#mark(rows).then(() => {
      this.#inFlight = undefined;
      onSettled();
    });
  }

  /** Marks no more; resolves when nothing is in flight. What comes of that goes back to the line. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#inFlight;
  }

  /** MK2: takes a row whose claim is lost out of the line; false where it is not there. */
  letGo(held: HeldRow): boolean {
    return this.#line.remove(held);
  }

  /** Takes back everything that is in the line. */
  recall(): HeldRow[] {
    return this.#line.recall();
  }

  async #mark(rows: readonly HeldRow[]): Promise<void> {
    const { database, slots, report, held, queue } = this.#options;
    const takesQuarantine = rows.some(({ row }) => row.crashes > 0);
    if (takesQuarantine) slots.reserveQuarantine(true);
    let marked = new Set<string>();
    try {
      const answer = await database.run("keeper", (connection) =>
        connection.run<{ id: number; claim: string }>(database.statements.get("picker/mark_started"), [
          rows.map(({ row }) => row.id),
          rows.map(({ row }) => row.claim),
        ]),
      );
      marked = new Set(answer.map(tenureOf));
    } catch (error) {
      report.trouble(`marking rows of queue ${queue}`, error);
    }
    const isHeld = ({ row }: HeldRow): boolean => held.at(row.seat, row.generation) !== undefined;
    this.#line.putBack(
      rows.filter(({ row }) => !marked.has(tenureOf(row))),
      monotonicMs(),
    );
    const ready = rows.filter((heldRow) => marked.has(tenureOf(heldRow.row)) && isHeld(heldRow));
    if (this.#isStopped) this.#line.putBack(ready, monotonicMs());
    else slots.dispatch(ready);
    if (takesQuarantine) slots.reserveQuarantine(false);
  }
}
