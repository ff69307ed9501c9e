// HeldTable: the rows that this node holds: claimed, and not yet committed or handed back. Each has a seat in the ledger.
// Owns:  which seat belongs to which row. One table a node, used by the coordinator thread only.
// H1  A seat has at most one tenant. A generation names one tenancy, so that news about an earlier tenant changes nothing.
// H2  A row is in the table from its claim to its commit, its return or its loss, whether a thread has it or not.
// H3  Of a chain (a row whose steps run ahead) the table knows step and visit, but neither state nor inbox: its row is never
//     sent to a thread again before it was read anew.

import { InvariantError } from "#core/errors.js";
import { type Ledger, SEATS_MAX } from "#core/ledger.js";
import type { AbortReason } from "#core/protocol/executor.js";
import type { ContinuedRow } from "#core/protocol/flusher.js";
import type { ClaimedRow } from "#core/protocol/row.js";

export interface HeldRow {
  /** `seat` and `generation` in it are set by the table. */
  readonly row: ClaimedRow;
  /** The queue's index in the ledger. */
  readonly queueIndex: number;
  /** When the claim was sent, monotonic milliseconds. */
  readonly claimedAtMs: number;
  /** The key under which it was claimed, null where no limit applied: others of the key wait for its end. */
  concurrencyKey: string | null;
  /** The executor thread that has the row and has not reported its end; written by the crew. */
  thread: number | null;
  /** When the crew last gave it to a thread, monotonic milliseconds; 0 before. Written by the crew. */
  dispatchedAtMs: number;
  /** Why its `ctx.signal` is to abort, null for no reason; written by the crew. */
  abortion: AbortReason | null;
  /** H3. The thread has run more than one step of it under this claim. */
  isChain: boolean;
  /** Whether limits have to admit the chain's next step; what they have given is lost when the step does not begin. */
  admission: "none" | "asked" | "given";
}

export class HeldTable {
  readonly #ledger: Ledger;
  readonly #rows: (HeldRow | undefined)[] = new Array(SEATS_MAX).fill(undefined);
  /** Free seats, as a stack: the seats in use stay few and close together. */
  /** By queue: how many of its rows are chains in a thread. */
  readonly #chains: number[] = [];
  readonly #free: number[] = Array.from({ length: SEATS_MAX }, (_, index) => SEATS_MAX - 1 - index);

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  get count(): number {
    return SEATS_MAX - this.#free.length;
  }

  /** How many rows can still be held. */
  get room(): number {
    return this.#free.length;
  }

  /**
   * Gives a claimed row a seat, and writes seat and generation into it. `trustedUntilMs` is how long this node may
   * believe in the claim (monotonic; at most the lease counted from before the claim was sent).
   * @throws InvariantError without a free seat: look at `room` before claiming.
   */
  hold(
    row: ClaimedRow,
    facts: {
      queueIndex: number;
      claimedAtMs: number;
      trustedUntilMs: number;
      concurrencyKey?: string | null;
    },
  ): HeldRow {
    const seat = this.#free.pop();
    if (seat === undefined) throw new InvariantError("no free seat for a claimed row");
    row.seat = seat;
    row.generation = this.#ledger.seat(seat, facts.trustedUntilMs);
    const held: HeldRow = {
      row,
      queueIndex: facts.queueIndex,
      claimedAtMs: facts.claimedAtMs,
      concurrencyKey: facts.concurrencyKey ?? null,
      thread: null,
      dispatchedAtMs: 0,
      abortion: null,
      isChain: false,
      admission: "none",
    };
    this.#rows[seat] = held;
    return held;
  }

  /** The seat's tenant; undefined when it is free, or, where a generation is given, when that tenancy is over. */
  at(seat: number, generation?: number): HeldRow | undefined {
    const held = this.#rows[seat];
    if (held === undefined) return undefined;
    return generation === undefined || held.row.generation === generation ? held : undefined;
  }

  /** Starts a new tenancy of the same row on the same seat, unbegun, as trusted as before. The old generation is void. */
  reseat(held: HeldRow): void {
    const { seat, generation } = held.row;
    const trustedUntilMs = this.#ledger.trustedUntilMs(seat);
    this.#ledger.release(seat, generation);
    held.row.generation = this.#ledger.seat(seat, trustedUntilMs);
    held.thread = null;
  }

  /** H3. A commit has carried the row to its next step, which runs ahead in the same thread. */
  continue(held: HeldRow, { step, visit, key, needsAdmission }: ContinuedRow): void {
    const { row } = held;
    held.admission = needsAdmission ? "asked" : "none";
    row.step = step;
    row.visit = visit;
    row.attempt = 0;
    row.crashes = 0;
    row.reaps = 0;
    row.verdict = null;
    if (key !== undefined) held.concurrencyKey = key;
    if (held.isChain) return;
    held.isChain = true;
    this.#chains[held.queueIndex] = this.chainsOf(held.queueIndex) + 1;
  }

  /** The row is no longer in a thread, or what is known of it was read anew. */
  endChain(held: HeldRow): void {
    if (!held.isChain) return;
    held.isChain = false;
    this.#chains[held.queueIndex] = this.chainsOf(held.queueIndex) - 1;
  }

  /** Rows of the queue that are chains in a thread. */
  chainsOf(queueIndex: number): number {
    return this.#chains[queueIndex] ?? 0;
  }

  /** Confirms the claim up to a later time: the lease was extended by a statement sent early enough. */
  trustUntil(held: HeldRow, trustedUntilMs: number): void {
    this.#ledger.trustUntil(held.row.seat, trustedUntilMs);
  }

  /** Lets the row go and frees its seat. Undefined, and nothing happens, when that tenancy is over already. */
  release(seat: number, generation: number): HeldRow | undefined {
    const held = this.at(seat, generation);
    if (held === undefined) return undefined;
    this.endChain(held);
    this.#rows[seat] = undefined;
    this.#ledger.release(seat, generation);
    this.#free.push(seat);
    return held;
  }

  /** The rows that a thread has and whose end it has not reported. */
  inThread(thread: number): HeldRow[] {
    return this.all().filter((held) => held.thread === thread);
  }

  /** Every held row, by seat. */
  all(): HeldRow[] {
    return this.#rows.filter((held) => held !== undefined);
  }
}
