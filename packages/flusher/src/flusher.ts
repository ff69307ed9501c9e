// Flusher: turns many outcomes into one commit. One a flusher spec, on its own thread.
// Owns:     the outcomes that wait for their commit. Nobody else touches them.
// Receives: outcomes, lost, handBack, drain.   Sends: flushed, returned, drained.   (core/src/protocol/flusher.ts)
// F1  "flushed" is sent only after COMMIT returned. Until then the outcome does not exist.
// F2  At most one transaction is open; outcomes that arrive meanwhile join the next batch.
// F3  A row that an outcome has arrived for is never given back: the outcome decides.
// F4  A row whose next step is to run ahead is chained in the ledger before anybody hears of its commit. Where its thread is gone
//     it goes back to its queue: by its own outcome, or, when that was under way, right after it.
// F5  Pending bytes are added on arrival and subtracted with the answer, in full.

import { InvariantError } from "#core/errors.js";
import type { Ledger } from "#core/ledger.js";
import { pauseAt } from "#core/pausePoint.js";
import type {
  ContinuedRow,
  FlushedRow,
  FromFlusher,
  LostRow,
  RunnerInputs,
  StepFacts,
} from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { type Arrival, Arrivals } from "./arrivals.js";
import type { Committer } from "./committer.js";
import type { FlushResult } from "./env.js";
import { outcomeBytes } from "./outcomeBytes.js";
import { answerRunner, type Session } from "./sessions.js";
import { waitMs } from "./trigger.js";

/** Lost rows that somebody else holds locked are looked at again after so long. */
const LOST_RETRY_DELAY_MS = 100;

export interface FlusherOptions {
  flusher: number;
  ledger: Pick<
    Ledger,
    | "onTheWay"
    | "outcomesArrive"
    | "addPendingBytes"
    | "areStepsObserved"
    | "chain"
    | "isChained"
    | "trustUntil"
    | "trustedUntilMs"
  >;
  maxBatch: number;
  maxDelayMs: number;
  trustMs: number;
  committer: Pick<Committer, "flush" | "giveBack" | "poke" | "close">;
  report: (message: FromFlusher) => void;
  /** What nothing in here can explain; the thread ends. */
  fatal: (error: unknown) => void;
  nowMs: () => number;
}

export class Flusher {
  readonly #options: FlusherOptions;
  readonly #arrivals = new Arrivals();
  #lost: LostRow[] = [];
  #lostNotBeforeMs = 0;
  #owedPokes: string[] = [];
  #busy = false;
  /** Whether those that have to wait had the last turn: they and the queue take turns. */
  #waitingHadTurn = false;
  #draining = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: FlusherOptions) {
    this.#options = options;
  }

  /** Outcomes have arrived from a thread. */
  receive(session: Session | null, outcomes: readonly WireOutcome[]): void {
    const { ledger, flusher, nowMs } = this.#options;
    const arrivedAtMs = nowMs();
    let total = 0;
    for (const outcome of outcomes) {
      const bytes = outcomeBytes(outcome);
      total += bytes;
      this.#arrivals.add({
        outcome,
        bytes,
        session,
        runsAhead: session !== null && outcome.decision.kind === "next" && outcome.decision.inline,
        arrivedAtMs,
        putOffTimes: 0,
        notBeforeMs: 0,
        waits: false,
      });
    }
    ledger.addPendingBytes(flusher, total);
    if (session !== null) ledger.outcomesArrive(session.thread, flusher, outcomes.length);
    this.consider();
  }

  /** Rows that will not be run by the thread that has them. F3. */
  giveBack(rows: readonly LostRow[]): void {
    const { ledger } = this.#options;
    for (const row of rows) {
      if (this.#arrivals.has(row)) continue;
      // F4: whoever found it ended may not have known that its outcome was committed meanwhile.
      const begun = row.begun && !ledger.isChained(row.seat, row.generation);
      this.#lost.push(begun === row.begun ? row : { ...row, begun });
    }
    this.consider();
  }

  /** Pokes that the gate had held back. */
  owePokes(payloads: readonly string[]): void {
    this.#owedPokes.push(...payloads);
    this.consider();
  }

  /** Flushes everything without further delay, then reports "drained". */
  drain(): void {
    this.#draining = true;
    this.consider();
  }

  /** Looks whether something is to be done now, and when to look again. */
  consider(): void {
    if (this.#busy) return;
    clearTimeout(this.#timer);
    const { nowMs, report, committer } = this.#options;
    const work = this.#next(nowMs());
    if (typeof work === "function") {
      this.#busy = true;
      work().then(
        () => {
          this.#busy = false;
          this.consider();
        },
        (error) => this.#options.fatal(error),
      );
    } else if (work < Number.POSITIVE_INFINITY) {
      this.#timer = setTimeout(() => this.consider(), Math.ceil(work));
    } else if (this.#draining) {
      // Nothing comes after this: the thread stays busy for good.
      this.#busy = true;
      committer.close().then(() => report({ type: "drained" }), this.#options.fatal);
    }
  }

  /** The next piece of work, or for how long to wait. */
  #next(nowMs: number): (() => Promise<void>) | number {
    const { ledger, flusher, maxBatch, maxDelayMs, committer } = this.#options;
    const putOffDueAtMs = this.#arrivals.putOffDueAtMs();
    const batch = { ...this.#arrivals.facts(), onTheWay: this.#draining ? 0 : ledger.onTheWay(flusher) };
    const batchWaitMs = waitMs(batch, { maxBatch, maxDelayMs }, nowMs);
    if (batchWaitMs === 0 || putOffDueAtMs <= nowMs) {
      const taken = this.#take(batchWaitMs === 0, nowMs);
      if (taken.length > 0) return () => this.#flush(taken);
    }
    if (this.#lost.length > 0 && this.#lostNotBeforeMs <= nowMs) return () => this.#returnLost();
    if (this.#owedPokes.length > 0) {
      const payloads = this.#owedPokes;
      this.#owedPokes = [];
      return () => committer.poke(payloads);
    }
    const lostAtMs = this.#lost.length > 0 ? this.#lostNotBeforeMs : Number.POSITIVE_INFINITY;
    return Math.min(batchWaitMs, putOffDueAtMs - nowMs, lostAtMs - nowMs);
  }

  /** The next batch: of the queue and what was put off, or of those that have to wait. */
  #take(queueIsDue: boolean, nowMs: number): Arrival[] {
    const { maxBatch } = this.#options;
    if (!this.#waitingHadTurn || !queueIsDue) {
      const waiting = this.#arrivals.takeWaiting(maxBatch, nowMs);
      this.#waitingHadTurn = waiting.length > 0;
      if (waiting.length > 0) return waiting;
    }
    this.#waitingHadTurn = false;
    return this.#arrivals.takeBatch(maxBatch, nowMs);
  }

  async #flush(batch: readonly Arrival[]): Promise<void> {
    const { committer, ledger, flusher, report, nowMs } = this.#options;
    const startedAtMs = nowMs();
    for (const arrival of batch)
      if (arrival.runsAhead && arrival.session?.isOver === true) stayBehind(arrival);
    const byOutcome = new Map(batch.map((arrival) => [arrival.outcome, arrival]));
    const result = await committer.flush([...byOutcome.keys()]);
    await pauseAt("flush.committed");
    const endedAtMs = nowMs();
    for (const { outcome, reason } of result.deferred) {
      const arrival = byOutcome.get(outcome);
      if (arrival === undefined) continue;
      byOutcome.delete(outcome);
      this.#arrivals.putOff(arrival, reason, endedAtMs);
    }
    let answeredBytes = 0;
    for (const arrival of byOutcome.values()) {
      answeredBytes += arrival.bytes;
      this.#arrivals.answered(arrival);
    }
    ledger.addPendingBytes(flusher, -answeredBytes);
    this.#chain(result, byOutcome, startedAtMs, endedAtMs);
    answerRunners(result, byOutcome);
    report({
      type: "flushed",
      committed: result.committed.map(rowOf),
      stale: result.stale.map(rowOf),
      continued: result.continued.map(continuedOf),
      pokes: result.pokes,
      deadlineInMs: result.deadlineInMs,
    });
    if (ledger.areStepsObserved)
      report({ type: "steps", steps: [...result.committed, ...result.continued].map(factsOf) });
    for (const { name, fields } of result.events) report({ type: "event", name, fields });
    report({
      type: "event",
      name: "flush",
      fields: {
        flusher,
        durationMs: endedAtMs - startedAtMs,
        rows: batch.length,
        committed: result.committed.length + result.continued.length,
        stale: result.stale.length,
        deferred: result.deferred.length,
        transactions: result.transactions,
      },
    });
  }

  /** F4. The commit has extended those leases that were to be extended, too. */
  #chain(
    { continued }: FlushResult,
    batch: ReadonlyMap<WireOutcome, Arrival>,
    startedAtMs: number,
    endedAtMs: number,
  ): void {
    const { ledger, trustMs } = this.#options;
    for (const outcome of continued) {
      const { id, claim, seat, generation } = outcome;
      if (ledger.trustedUntilMs(seat) < startedAtMs + trustMs) ledger.trustUntil(seat, startedAtMs + trustMs);
      ledger.chain(seat, generation, endedAtMs);
      if (batch.get(outcome)?.session?.isOver === true)
        this.#lost.push({ id, claim, seat, generation, begun: false });
    }
  }

  async #returnLost(): Promise<void> {
    const { committer, report, nowMs } = this.#options;
    const rows = this.#lost;
    this.#lost = [];
    const { returned, deferred, pokes, events } = await committer.giveBack(rows);
    await pauseAt("return.committed");
    this.#lost.push(...deferred);
    if (deferred.length > 0) this.#lostNotBeforeMs = nowMs() + LOST_RETRY_DELAY_MS;
    report({ type: "returned", rows: returned.map(rowOf), pokes });
    for (const { name, fields } of events) report({ type: "event", name, fields });
  }
}

/** The thread that would run its next step is gone: the row goes back to its queue instead. */
function stayBehind(arrival: Arrival): void {
  const { outcome } = arrival;
  if (outcome.decision.kind !== "next") return;
  arrival.outcome = { ...outcome, decision: { ...outcome.decision, inline: false } };
  arrival.runsAhead = false;
}

/** Tells steps that run ahead whether they may; a commit that gave the row up ends the chain. */
function answerRunners(result: FlushResult, batch: ReadonlyMap<WireOutcome, Arrival>): void {
  const answers = new Map<Session, { committed: number[]; left: number[]; inputs: RunnerInputs[] }>();
  const continued = result.continued.length === 0 ? NOBODY : new Set(result.continued);
  for (const [outcome, { session, runsAhead }] of batch) {
    if (session === null || !runsAhead) continue;
    const { seat, generation } = outcome;
    let answer = answers.get(session);
    if (answer === undefined) {
      answer = { committed: [], left: [], inputs: [] };
      answers.set(session, answer);
    }
    (continued.has(outcome) ? answer.committed : answer.left).push(seat, generation);
    const inputs = result.inputs.get(outcome);
    if (inputs !== undefined) answer.inputs.push({ seat, generation, ...inputs });
  }
  for (const [session, { committed, left, inputs }] of answers) {
    if (committed.length > 0) answerRunner(session, { type: "committed", tenancies: committed, inputs });
    if (left.length > 0) answerRunner(session, { type: "left", tenancies: left });
  }
}

const NOBODY: ReadonlySet<WireOutcome> = new Set();

function continuedOf({ seat, generation, visit, decision }: WireOutcome): ContinuedRow {
  if (decision.kind !== "next") throw new InvariantError("only a next can be continued");
  const { step, key, rateLimit } = decision;
  return {
    seat,
    generation,
    step,
    visit: visit + 1,
    key,
    needsAdmission: rateLimit !== null || typeof key === "string",
  };
}

function rowOf({ seat, generation }: FlushedRow): FlushedRow {
  return { seat, generation };
}

function factsOf({ id, fsm, version, step, attempt, queue, decision, durationMs }: WireOutcome): StepFacts {
  return { instance: id, fsm, version, step, attempt, queue, kind: decision.kind, durationMs };
}
