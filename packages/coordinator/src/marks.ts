// Marks: rows of one queue that may begin only after the database says so (`started_at`).
// MK1  A row is marked when a slot is free for it, not when it is claimed: what waits in line has not begun.
// MK2  A row that cannot be marked because somebody has locked it is tried again; one that is lost is let go by the
//      lease heartbeat.
// MK3  A row that runs in quarantine is marked when the quarantine is free, and no row of another queue is being marked for it.
//      Otherwise the death of the node would charge a crash to every row that waits there for its turn.

import type { HeldRow, HeldTable } from "./held.js";

/** Between two tries for a row that somebody has locked. */
const LOCKED_RETRY_MS = 250;

export class Marks {
  readonly #held: HeldTable;
  #waiting: HeldRow[] = [];
  #notBeforeMs = 0;

  constructor(held: HeldTable) {
    this.#held = held;
  }

  get count(): number {
    this.#forgetLost();
    return this.#waiting.length;
  }

  add(rows: readonly HeldRow[]): void {
    this.#waiting.push(...rows);
  }

  /** The next rows to mark, at most `slots`, and at most one of those that run in quarantine; they leave the line. */
  take(slots: number, isQuarantineFree: boolean, nowMs: number): HeldRow[] {
    if (nowMs < this.#notBeforeMs || slots <= 0) return [];
    this.#forgetLost();
    const taken: HeldRow[] = [];
    const left: HeldRow[] = [];
    let quarantined = isQuarantineFree ? 1 : 0;
    for (const held of this.#waiting) {
      const fits = taken.length < slots && (held.row.crashes === 0 || quarantined-- > 0);
      (fits ? taken : left).push(held);
    }
    this.#waiting = left;
    return taken;
  }

  /** Puts rows back that could not be marked: to the end of the line, so that they hold up nobody. */
  putBack(rows: readonly HeldRow[], nowMs: number): void {
    if (rows.length === 0) return;
    this.#waiting.push(...rows);
    this.#notBeforeMs = nowMs + LOCKED_RETRY_MS;
  }

  /** Takes one row out of the line; false where it is not there. */
  remove(held: HeldRow): boolean {
    const left = this.#waiting.filter((other) => other !== held);
    const isRemoved = left.length < this.#waiting.length;
    this.#waiting = left;
    return isRemoved;
  }

  /** Everything that waits, for a drain. */
  recall(): HeldRow[] {
    this.#forgetLost();
    return this.#waiting.splice(0);
  }

  #forgetLost(): void {
    this.#waiting = this.#waiting.filter(
      (held) => this.#held.at(held.row.seat, held.row.generation) !== undefined,
    );
  }
}
