// Member: one executor thread of the crew, through its sessions: what it was sent and what it may run.
//
// phase:  resting -> starting -> open <-> condemned -> ending -> resting
//   resting    no thread; one is started when its time has come
//   starting   the thread loads the definitions
//   open       it takes work, unless its loop is blocked or it is set apart for quarantine
//   condemned  a step in it is overdue: no new work; its neighbours may finish, then it is ended
//   ending     the thread was told to end and is not known to be gone

import type { MessagePort } from "node:worker_threads";
import type { Ledger } from "#core/ledger.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import type { OpenSession } from "#executor/pool.js";
import type { HeldRow } from "../held.js";
import { SentLane } from "./sentLane.js";

export interface OpenThread {
  session: number;
  control: MessagePort;
  thread: OpenSession;
  startedAtMs: number;
  /** Whether the flushers have the session's ports. */
  isAttached: boolean;
}

export type Phase =
  | { name: "resting" }
  | ({ name: "starting"; flusherPorts: readonly MessagePort[] } & OpenThread)
  | ({ name: "open" } & OpenThread)
  | ({ name: "condemned"; sinceMs: number } & OpenThread)
  | ({ name: "ending"; why: "overdue" | "closing" | "refused" | "late" } & OpenThread);

export class Member {
  readonly index: number;
  readonly lanes: readonly SentLane[];
  /** By queue: permits in the ledger or in use by a running row. Written by Permits. */
  readonly granted: number[];
  /** Rows sent to the thread whose end it has not reported. */
  outstanding = 0;
  phase: Phase = { name: "resting" };
  /** Its loop does not turn: no new work. */
  isBlocked = false;
  /** Whether the operator knows that its loop is blocked. */
  isLongBlockTold = false;
  /** Set apart for rows that have crashed before: no ordinary work. */
  isSetApart = false;
  ticks = 0;
  tickedAtMs = 0;
  /** When user code of a row in it last returned; 0 before. */
  endedAtMs = 0;
  deaths = 0;
  /** Rows in it that have a time limit. */
  readonly limited = new Set<HeldRow>();
  /** Rows in it whose steps run ahead. */
  readonly chains = new Set<HeldRow>();
  /** Rows chosen for it in the dispatch under way. */
  chosen: ClaimedRow[] = [];

  constructor(index: number, queues: number, ledger: Ledger) {
    this.index = index;
    this.lanes = Array.from({ length: queues }, () => new SentLane(ledger));
    this.granted = new Array<number>(queues).fill(0);
  }

  /** Whether ordinary rows may be sent to it. */
  get takesWork(): boolean {
    return this.phase.name === "open" && !this.isBlocked && !this.isSetApart;
  }

  get isReady(): boolean {
    return this.phase.name === "open" || this.phase.name === "condemned";
  }

  get control(): MessagePort | undefined {
    return this.phase.name === "resting" ? undefined : this.phase.control;
  }

  unstarted(): number {
    return this.lanes.reduce((sum, lane) => sum + lane.unstarted, 0);
  }

  lane(queue: number): SentLane {
    return this.lanes[queue] as SentLane; // one a queue
  }

  /** Takes back up to `count` rows of a queue that have not begun; their seats' marks are free afterwards. */
  recall(queue: number, count: number): HeldRow[] {
    const recalled = this.lane(queue).recall(count);
    for (const held of recalled) this.forget(held);
    return recalled;
  }

  /** Takes back every row that has not begun. */
  recallAll(): HeldRow[] {
    return this.lanes.flatMap((_, queue) => this.recall(queue, Number.POSITIVE_INFINITY));
  }

  /** The row is no longer in the thread. */
  forget(held: HeldRow): void {
    this.outstanding--;
    this.drop(held);
    if (held.thread === this.index) held.thread = null;
  }

  /** The row is not watched any more: its last outcome is committed, and its end may not have been told yet. */
  drop(held: HeldRow): void {
    this.limited.delete(held);
    this.chains.delete(held);
  }

  /** Its thread is gone: nothing of it is left. */
  reset(): void {
    for (const lane of this.lanes) lane.clear();
    this.granted.fill(0);
    this.outstanding = 0;
    this.isBlocked = false;
    this.isSetApart = false;
    this.limited.clear();
    this.chains.clear();
    this.chosen = [];
  }
}
