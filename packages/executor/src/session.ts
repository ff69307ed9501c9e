// Session: the work of one executor thread, from its definitions to its end.
// Owns:     the rows that the coordinator sent it, until their outcomes are posted.
// Receives: ToExecutor over the control port, ToRunner from the flushers.   Sends: FromExecutor, packed outcomes to the flushers.
//
// S1  A row begins with a permit of its queue and by winning its seat in the ledger; a row that was taken back is
//     forgotten. Permits go back into the ledger as soon as no row of their queue waits here.
// S2  A row whose claim is not trusted any more, or known to be lost, is not begun. A running one is told by its signal.
// S3  The loop gets a turn every few milliseconds, so that messages, timers and the ledger's tick are not held up by a
//     long chunk of short steps; what has ended by then is posted.
// S4  A row whose next step runs ahead stays here, without a permit, until its commit is known (chains.ts).
// S5  An error in this file's own code ends the thread: its rows are recovered as those of any dead thread.

// The modules' timers, not the globals: user code may replace those.
import { clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "node:timers";
import { flushOpenBuffers } from "#core/client/openBuffers.js";
import { TIMER_MS_MAX } from "#core/clock.js";
import { unreachable } from "#core/errors.js";
import { describeError } from "#core/errorText.js";
import { Ledger } from "#core/ledger.js";
import { unpackRows } from "#core/protocol/codec.js";
import type { AbortReason, SessionTask, ToExecutor } from "#core/protocol/executor.js";
import type { ToRunner } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import { type Chain, Chains } from "./chains.js";
import type { StrayKind } from "./guards.js";
import { Lane } from "./lane.js";
import { Outbox } from "./outbox.js";
import { stackOf } from "./stack.js";
import { type RunListener, type StepEnvironment, StepRun } from "./step.js";

/** How often a thread with work shows that its loop turns, milliseconds. The coordinator looks a little less often. */
export const TICK_MS = 20;

/** S3: how long rows are begun in one turn, milliseconds. A few hundred short steps; below what a timer would notice. */
const TURN_MS = 2;

/** Between looks at the running rows' claims, milliseconds. */
const REVIEW_MS = 200;

/** S2: what a claim must still be good for when its row begins, milliseconds. */
const TRUST_MARGIN_MS = 100;

/** How long the inserts that steps have left in their clients' buffers may take to be written when the thread ends; below
 * what the coordinator waits for its end. */
const INSERTS_MS = 800;

interface Running {
  lane: Lane;
  /** When the first step under the row's claim began. */
  sinceMs: number;
  timer: NodeJS.Timeout | undefined;
}

export interface SessionHooks {
  environment: StepEnvironment;
  /** Posts what has been logged. */
  flushLogs(): void;
  /** Logs an error that nothing caught; `fields` name its instance where it is known. */
  logStray(kind: StrayKind, error: unknown, fields: Readonly<Record<string, unknown>>): void;
  /** Ends the thread. */
  exit(code: number): void;
}

export class Session implements RunListener {
  readonly #task: SessionTask;
  readonly #hooks: SessionHooks;
  readonly #now: () => number;
  readonly #ledger: Ledger;
  readonly #lanes: readonly Lane[];
  readonly #laneOf: ReadonlyMap<string, Lane>;
  readonly #outbox: Outbox;
  readonly #chains: Chains;
  readonly #running = new Map<StepRun, Running>();
  /** Aborts of rows that have not begun, by seat. */
  readonly #aborts = new Map<number, { generation: number; reason: AbortReason }>();
  #waiting = 0;
  #turnIsDue = false;
  #ticker: NodeJS.Timeout | undefined;
  #reviewedAtMs = 0;
  #firstLane = 0;

  constructor(task: SessionTask, hooks: SessionHooks) {
    this.#task = task;
    this.#hooks = hooks;
    this.#now = hooks.environment.now;
    this.#ledger = new Ledger(task.ledger);
    this.#lanes = task.queues.map((_, index) => new Lane(index));
    this.#laneOf = new Map(task.queues.map((name, index) => [name, this.#lanes[index] as Lane])); // same length
    this.#outbox = new Outbox(task.control, task.flusherPorts);
    this.#chains = new Chains(task);
  }

  /** Begins to listen to the flushers. */
  listen(): void {
    for (const port of this.#task.flusherPorts)
      port.on("message", (message: ToRunner) => this.#guarded(() => this.#hear(message)));
  }

  receive(message: ToExecutor): void {
    this.#guarded(() => {
      switch (message.type) {
        case "chunk":
          this.#takeChunk(unpackRows(message.rows));
          return;
        case "permits":
          this.#scheduleTurn();
          return;
        case "abort":
          this.#abort(message);
          return;
        case "admitted":
          this.#ready(this.#chains.admitted(message.tenancies));
          return;
        case "forget":
          this.#forget(message.tenancies);
          return;
        case "close":
          this.finish();
          // Clients of steps may hold rows that nobody has written yet.
          flushOpenBuffers(INSERTS_MS).finally(() => {
            this.finish();
            this.#hooks.exit(0);
          });
          return;
        default:
          unreachable(message);
      }
    });
  }

  /** Posts everything that has ended or was logged; also when the thread is being ended by its own code. */
  finish(): void {
    this.#outbox.post();
    this.#hooks.flushLogs();
  }

  /** Hears of an error that nothing caught. */
  stray(kind: StrayKind, error: unknown, run: StepRun | undefined): void {
    this.#guarded(() => {
      this.#hooks.logStray(kind, error, run?.logFields ?? {});
      if (kind === "uncaughtException") run?.fail(error);
    });
  }

  /** S5, where no caller is left to throw to. */
  broken(error: unknown): void {
    this.#guarded(() => {
      throw error;
    });
  }

  /** The step of a row has failed and its `handle` begins, with a time limit of its own. */
  handling(run: StepRun): void {
    const running = this.#running.get(run);
    if (running === undefined || run.timeoutMs === null) return;
    this.#ledger.beginAgain(run.row.seat, run.row.generation, this.#now());
    this.#limit(run, running);
  }

  /** User code of a row has returned for good: its slot is free, its outcome leaves with this turn. */
  decided(run: StepRun, outcome: WireOutcome): void {
    const running = this.#running.get(run);
    if (running === undefined) return;
    const { lane, sinceMs, timer } = running;
    if (timer !== undefined) clearTimeout(timer);
    const flusher = this.#task.flusherOfQueue[lane.queue] ?? 0;
    const { decision } = outcome;
    if (decision.kind === "next" && decision.inline)
      decision.inline = this.#chains.mayRunAhead(run.row, run.fsm, decision, this.#now() - sinceMs);
    const runsAhead = decision.kind === "next" && decision.inline;
    if (runsAhead) this.#chains.add(run.row, outcome, { lane, sinceMs });
    this.#ledger.end(outcome.seat, outcome.generation);
    this.#ledger.outcomeLeaves(this.#task.thread, flusher);
    this.#outbox.addOutcome(flusher, outcome, { leaves: !runsAhead });
    this.#running.delete(run);
    lane.permitsInHand++;
    this.#scheduleTurn();
  }

  /** User code of a row has ended as it was told to, without an outcome: the row goes back as it was. */
  givenUp(run: StepRun): void {
    const running = this.#running.get(run);
    if (running === undefined) return;
    if (running.timer !== undefined) clearTimeout(running.timer);
    const { seat, generation } = run.row;
    this.#ledger.end(seat, generation);
    this.#outbox.addDistrusted(seat, generation);
    this.#running.delete(run);
    running.lane.permitsInHand++;
    this.#scheduleTurn();
  }

  #hear(message: ToRunner): void {
    switch (message.type) {
      case "committed":
        this.#ready(this.#chains.committed(message));
        return;
      case "left":
        this.#forget(message.tenancies);
        this.#outbox.addEnded(message.tenancies);
        this.#scheduleTurn();
        return;
      default:
        unreachable(message);
    }
  }

  #ready(chains: readonly Chain[]): void {
    for (const chain of chains) chain.lane.pushChain(chain);
    this.#waiting += chains.length;
    if (chains.length > 0) this.#scheduleTurn();
  }

  #forget(tenancies: readonly number[]): void {
    for (let index = 0; index < tenancies.length; index += 2)
      this.#chains.forget({ seat: tenancies[index] ?? -1, generation: tenancies[index + 1] ?? 0 });
  }

  #takeChunk(rows: readonly ClaimedRow[]): void {
    for (const row of rows) {
      const lane = this.#laneOf.get(row.queue);
      if (lane === undefined) throw new Error(`a row of the unknown queue "${row.queue}"`);
      lane.push(row);
    }
    this.#waiting += rows.length;
    this.#ledger.tick(this.#task.thread);
    this.#ticker ??= setInterval(() => this.#guarded(() => this.#tick()), TICK_MS);
    this.#scheduleTurn();
  }

  #scheduleTurn(): void {
    if (this.#turnIsDue) return;
    this.#turnIsDue = true;
    setImmediate(() => {
      this.#turnIsDue = false;
      this.#guarded(() => this.#turn());
    });
  }

  #turn(): void {
    this.#ledger.tick(this.#task.thread);
    // What has ended leaves first: a row that begins now may keep the thread for long.
    this.#post();
    this.#beginRows();
    this.#post();
    if (this.#waiting === 0 && this.#running.size === 0 && this.#chains.size === 0) {
      clearInterval(this.#ticker);
      this.#ticker = undefined;
    }
  }

  /** S1, S3: one row of each lane in turn, so that a long lane holds up no other. */
  #beginRows(): void {
    const untilMs = this.#now() + TURN_MS;
    const count = this.#lanes.length;
    let idle = 0;
    let index = this.#firstLane;
    while (this.#waiting > 0 && idle < count) {
      const lane = this.#lanes[index % count] as Lane; // a queue there is, since rows wait
      index++;
      if (!this.#beginOne(lane)) {
        idle++;
        continue;
      }
      idle = 0;
      if (this.#now() >= untilMs) {
        this.#scheduleTurn();
        break;
      }
    }
    this.#firstLane = index % Math.max(count, 1);
  }

  /** Permits go back before their rows are told as ended: whoever hears of it finds the slots free. */
  #post(): void {
    for (const lane of this.#lanes) {
      if (lane.permitsInHand === 0 || lane.length > 0) continue;
      this.#ledger.putPermits(this.#task.thread, lane.queue, lane.permitsInHand);
      lane.permitsInHand = 0;
    }
    this.#outbox.post();
  }

  /** Begins the next row of the lane that can begin. False when none waits or no permit can be had. */
  #beginOne(lane: Lane): boolean {
    if (lane.length === 0) return false;
    if (lane.permitsInHand === 0) {
      if (this.#ledger.takePermits(this.#task.thread, lane.queue, 1) === 0) return false;
      lane.permitsInHand = 1;
    }
    for (;;) {
      const chain = lane.shiftChain();
      if (chain !== undefined) {
        this.#waiting--;
        if (this.#beginChain(chain)) return true;
        continue;
      }
      const row = lane.shift();
      if (row === undefined) return false;
      this.#waiting--;
      const nowMs = this.#now();
      const abortion = this.#takeAbort(row);
      if (abortion === "claim_lost" || !this.#isTrusted(row, nowMs)) {
        if (this.#ledger.recall(row.seat, row.generation))
          this.#outbox.addDistrusted(row.seat, row.generation);
        this.#scheduleTurn();
        continue;
      }
      if (!this.#ledger.begin(row.seat, row.generation, nowMs)) continue;
      lane.permitsInHand--;
      this.#start(row, { lane, sinceMs: nowMs }, abortion);
      return true;
    }
  }

  /** The next step of a row that runs ahead. False when it does not begin. */
  #beginChain(chain: Chain): boolean {
    const { row, lane, sinceMs, abortion } = chain;
    const nowMs = this.#now();
    const { seat, generation } = row;
    // Also when it was told to be forgotten meanwhile: its mark is no longer chained then.
    this.#chains.forget(row);
    if (abortion === "claim_lost" || !this.#isTrusted(row, nowMs) || this.#chains.isClosed) {
      if (this.#ledger.recallChained(seat, generation)) this.#outbox.addDistrusted(seat, generation);
      this.#scheduleTurn();
      return false;
    }
    if (!this.#ledger.beginChained(seat, generation, nowMs)) return false;
    lane.permitsInHand--;
    this.#start(row, { lane, sinceMs }, abortion);
    return true;
  }

  #start(row: ClaimedRow, place: { lane: Lane; sinceMs: number }, abortion: AbortReason | null): void {
    const run = new StepRun(row, this.#hooks.environment, this);
    const running: Running = { lane: place.lane, sinceMs: place.sinceMs, timer: undefined };
    this.#running.set(run, running);
    this.#limit(run, running);
    if (abortion !== null) run.abort(abortion);
    run.start();
  }

  /** S2. */
  #isTrusted({ seat }: ClaimedRow, nowMs: number): boolean {
    return this.#ledger.trustedUntilMs(seat) - TRUST_MARGIN_MS > nowMs;
  }

  #takeAbort({ seat, generation }: ClaimedRow): AbortReason | null {
    if (this.#aborts.size === 0) return null;
    const abort = this.#aborts.get(seat);
    if (abort?.generation !== generation) return null;
    this.#aborts.delete(seat);
    return abort.reason;
  }

  #limit(run: StepRun, running: Running): void {
    const { timeoutMs } = run;
    // A longer one would fire at once; no thread lives that long between two deployments.
    if (timeoutMs === null || timeoutMs > TIMER_MS_MAX) return;
    this.#ledger.limit(run.row.seat, run.row.generation, timeoutMs);
    clearTimeout(running.timer);
    running.timer = setTimeout(() => run.abort("timeout"), timeoutMs);
  }

  #abort({ seat, generation, reason }: { seat: number; generation: number; reason: AbortReason }): void {
    if (reason === "shutdown") this.#chains.isClosed = true;
    if (this.#chains.abort(seat, generation, reason)) return;
    if (this.#ledger.isAssigned(seat, generation)) {
      this.#aborts.set(seat, { generation, reason });
      return;
    }
    for (const run of this.#running.keys()) {
      if (run.row.seat === seat && run.row.generation === generation) run.abort(reason);
    }
  }

  #tick(): void {
    this.#ledger.tick(this.#task.thread);
    const nowMs = this.#now();
    if (nowMs - this.#reviewedAtMs < REVIEW_MS) return;
    this.#reviewedAtMs = nowMs;
    for (const run of this.#running.keys()) {
      if (!this.#isTrusted(run.row, nowMs)) run.abort("claim_lost");
    }
  }

  /** S5. */
  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      // User code may have broken what describes an error; a thread that stayed would keep its rows for good.
      try {
        this.#task.control.postMessage({
          type: "log",
          level: "error",
          message: "an executor thread ends because of an error of the engine",
          fields: { err: { message: describeError(error), stack: stackOf(error) } },
        });
      } finally {
        this.#hooks.exit(1);
      }
    }
  }
}
