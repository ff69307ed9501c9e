// Coordinator: one node's work, put together: pickers claim, the crew runs, flushers commit, the reaper takes back.
// Owns:     every part below; all of them live in this one thread.
// Receives: drain, observe, renamed, suspect.   Sends: ready, refused, health, steps, event, log, fatal, drained.   (core/src/protocol/node.ts)
// CO1  Nothing is picked before the definitions are loaded, the flushers stand and the catalogue is written.
// CO2  A row is held from its claim until a flusher has committed it, given it back, or found it lost.
// CO3  Crash-only: what a part cannot handle is `fatal`, and the process ends.

import type { MessagePort } from "node:worker_threads";
import { lossOf } from "#core/database/advice.js";
import { isSilence } from "#core/database/failure.js";
import { unreachable } from "#core/errors.js";
import { Ledger } from "#core/ledger.js";
import type { CatalogueEntry } from "#core/protocol/executor.js";
import type { FlushedRow } from "#core/protocol/flusher.js";
import type { CoordinatorTask, FromCoordinator, ToCoordinator } from "#core/protocol/node.js";
import { Pulse } from "#core/pulse.js";
import { enterCatalogue, enterKnown, knownDefinitions } from "./catalogue.js";
import { pickTransaction } from "./claimLimited.js";
import { Collector } from "./collector.js";
import { Commits } from "./commits.js";
import { Crew } from "./crew/crew.js";
import { Database } from "./database.js";
import { Doubts } from "./doubts.js";
import { drain, toLostRow } from "./drain.js";
import { Duty } from "./duty.js";
import { Flushers, planFlushers } from "./flushers.js";
import { type HeldRow, HeldTable } from "./held.js";
import { Lease } from "./lease.js";
import type { Limiter } from "./limiter/limiter.js";
import { PostgresLimiter } from "./limiter/postgresLimiter.js";
import { Throttle } from "./limiter/throttle.js";
import { News } from "./news.js";
import { Once } from "./once.js";
import { readOutdated } from "./outdated.js";
import type { Picker } from "./picker.js";
import { makePickers } from "./pickers.js";
import { Reaper } from "./reaper.js";
import { Report } from "./report.js";
import { describeRole } from "./role.js";
import { RunAhead } from "./runAhead.js";
import { Timers } from "./timers.js";

/** How often the loop shows that it turns; main watches in steps of a fifth of the node timeout at most. */
const TURN_INTERVAL_MS = 100;
/** Rows that somebody has locked are tried again so much sooner than the next heartbeat. */
const LOCKED_LEASE_PART = 4;

export class Coordinator {
  readonly #task: CoordinatorTask;
  readonly #send: (message: FromCoordinator) => void;
  readonly #queues: readonly string[];
  readonly #report: Report;
  readonly #pulse: Pulse;
  readonly #ledger: Ledger;
  readonly #held: HeldTable;
  readonly #database: Database;
  readonly #plan: ReturnType<typeof planFlushers>;
  readonly #flushers: Flushers;
  readonly #crew: Crew;
  readonly #lease: Lease;
  readonly #leaseDuty: Duty;
  readonly #timers: Timers;
  readonly #doubts: Doubts;
  readonly #runAhead: RunAhead;
  readonly #commits: Commits;
  readonly #news: News;
  /** Limits span queues, so pickers and chains share what they have found full, and have told. */
  readonly #limits: { limiter: Limiter; throttle: Throttle };
  readonly #reaper: Reaper | undefined;
  readonly #collector: Collector | undefined;
  #pickers: readonly Picker[] = [];
  #once: Once | undefined;
  #phase: "starting" | "running" | "draining" | "ended" = "starting";
  #node: string;
  #picks = 0;
  #catalogue: readonly CatalogueEntry[] | undefined;
  #executorsReady = 0;

  constructor(task: CoordinatorTask, send: (message: FromCoordinator) => void) {
    const { settings } = task;
    this.#task = task;
    this.#send = send;
    this.#node = task.node;
    this.#queues = Object.keys(settings.queues);
    this.#report = new Report({
      log: (level, message, fields = {}) => send({ type: "log", level, message, fields }),
      event: (name, fields) => send({ type: "event", name, fields }),
      fatal: (error) => this.fatal(error),
    });
    this.#pulse = new Pulse(task.pulse);
    this.#plan = planFlushers(settings);
    this.#ledger = Ledger.create({
      threads: settings.workers,
      queues: this.#queues.length,
      flushers: this.#plan.specs.length,
    });
    this.#held = new HeldTable(this.#ledger);
    this.#database = new Database({
      settings: settings.database,
      queueCount: this.#queues.length,
      leaseTtlMs: settings.leaseTtlMs,
      report: this.#report,
      beforeBack: () => this.#extendLeases({ all: true }).then(() => undefined),
      onAway: (error) => this.#connectionChanged("coordinator", error),
      onChange: (isUp) => this.#databaseChanged(isUp),
    });
    this.#lease = new Lease({
      leaseTtlMs: settings.leaseTtlMs,
      heartbeatIntervalMs: settings.heartbeatIntervalMs,
      statements: this.#database.statements,
      held: this.#held,
      ledger: this.#ledger,
      abort: (held, reason) => {
        if (reason === "claim_lost" && this.#pickers[held.queueIndex]?.letGo(held) === true)
          this.#handBack([held]);
        else this.#crew.abort(held.row.seat, reason);
      },
    });
    this.#leaseDuty = new Duty({
      name: "extending leases",
      report: this.#report,
      retryMs: settings.heartbeatIntervalMs / LOCKED_LEASE_PART,
      run: () => this.#extendLeases({ all: false }),
    });
    this.#timers = new Timers({
      queues: this.#queues,
      database: this.#database,
      report: this.#report,
      onDue: (queue) => this.#news.poke(queue),
      onWoken: (queues) => this.#news.announce(queues),
    });
    this.#doubts = new Doubts({
      database: this.#database,
      report: this.#report,
      onReleased: (queues) => this.#news.announce(queues),
    });
    const limiter = new PostgresLimiter(this.#database.statements);
    const throttle = new Throttle(this.#report);
    this.#limits = { limiter, throttle };
    this.#runAhead = new RunAhead({
      database: this.#database,
      transaction: pickTransaction(settings.database.prepare),
      limiter,
      throttle,
      held: this.#held,
      report: this.#report,
      admitted: (rows) => this.#crew.admitted(rows),
      denied: (rows) => this.#handBack(this.#crew.recallChains(rows)),
    });
    this.#commits = this.#makeCommits();
    this.#news = new News({
      settings,
      report: this.#report,
      timers: this.#timers,
      pickers: () => this.#pickers,
      isOwnFlusher: (processId) => this.#commits.isOwnProcess(processId),
      onCancel: (id) => {
        for (const { row } of this.#held.all()) if (row.id === id) this.#crew.abort(row.seat, "cancelled");
      },
      onConnection: (error) => this.#connectionChanged("listener", error),
    });
    this.#reaper =
      settings.reaper === false
        ? undefined
        : new Reaper({
            node: () => this.#node,
            intervalMs: settings.reaper.intervalMs,
            leaseTtlMs: settings.leaseTtlMs,
            nodeTimeoutMs: settings.nodeTimeoutMs,
            pulse: this.#pulse,
            database: this.#database,
            report: this.#report,
            onReturned: (queues) => this.#news.announce(queues),
          });
    this.#collector =
      settings.gc === false
        ? undefined
        : new Collector({ ...settings.gc, database: this.#database, report: this.#report });
    this.#flushers = new Flushers({
      plan: this.#plan,
      settings,
      node: task.node,
      ledger: this.#ledger.memory,
      events: {
        message: (flusher, message) => this.#commits.receive(flusher, message),
        fatal: (error) => this.fatal(error),
      },
    });
    this.#crew = this.#makeCrew();
  }

  start(): void {
    const turning = setInterval(
      () => this.#pulse.turn(),
      Math.min(TURN_INTERVAL_MS, this.#task.settings.nodeTimeoutMs / 20),
    );
    turning.unref();
    const { settings } = this.#task;
    for (const text of describeRole(settings)) this.#report.log("info", text);
    if (this.#queues.length > 0) this.#crew.start();
    else {
      // Nobody loads definitions where nothing runs.
      this.#catalogue = [];
      this.#guard(this.#beginWhenReady());
    }
    this.#news.start();
  }

  receive(message: ToCoordinator): void {
    switch (message.type) {
      case "suspect":
        this.#suspect();
        return;
      case "drain":
        void this.#drain();
        return;
      case "observe":
        this.#ledger.observeSteps(message.steps);
        return;
      case "renamed":
        this.#renamed(message.node);
        return;
      default:
        unreachable(message);
    }
  }

  /** CO3. */
  fatal(error: unknown): void {
    if (this.#phase === "ended") return;
    this.#phase = "ended";
    const { message, stack } = error as Error;
    this.#send({ type: "fatal", message: String(message ?? error), stack: stack ?? "" });
  }

  // --- the beginning ------------------------------------------------------------------------------------------------

  /** CO1. */
  async #beginWhenReady(): Promise<void> {
    const catalogue = this.#catalogue;
    if (this.#phase !== "starting" || catalogue === undefined || !this.#commits.areReady) return;
    this.#phase = "running";
    await enterCatalogue(this.#database, this.#report, this.#task.settings, catalogue);
    await enterKnown(this.#database, this.#node, catalogue);
    // A drain may have been asked for meanwhile.
    if ((this.#phase as string) !== "running") return;
    this.#pickers = makePickers({
      settings: this.#task.settings,
      flusherOfQueue: this.#plan.flusherOfQueue,
      catalogue,
      database: this.#database,
      ledger: this.#ledger,
      held: this.#held,
      slots: this.#crew,
      ...this.#limits,
      report: this.#report,
      canCommit: (flusher) => this.#commits.canCommit(flusher),
      nameClaim: () => `${this.#node}/${(++this.#picks).toString(36)}`,
      doubt: (claim) => this.#doubts.add(claim),
    });
    for (const picker of this.#pickers) picker.start();
    this.#leaseDuty.start(this.#task.settings.heartbeatIntervalMs);
    this.#timers.start();
    this.#reaper?.start();
    this.#collector?.start();
    this.#tellHealth();
    this.#send({ type: "ready" });
    if (this.#task.once) this.#startOnce(catalogue);
  }

  #startOnce(catalogue: readonly CatalogueEntry[]): void {
    this.#once = new Once({
      queues: this.#queues,
      known: knownDefinitions(catalogue),
      reaps: this.#task.settings.reaper !== false,
      database: this.#database,
      report: this.#report,
      isQuiet: () => this.#held.count === 0 && this.#pickers.every((picker) => picker.isDry),
      onDone: () => void this.#drain(),
    });
    this.#once.start();
  }

  // --- the crew ----------------------------------------------------------------------------------------------------

  #makeCrew(): Crew {
    return new Crew({
      settings: this.#task.settings,
      ledger: this.#ledger,
      held: this.#held,
      queues: this.#queues,
      flusherOfQueue: this.#plan.flusherOfQueue,
      logPort: {
        postMessage: (port: MessagePort, transfer) => this.#task.logPort.postMessage(port, transfer),
      },
      events: {
        ready: (catalogue) => {
          this.#catalogue = catalogue;
          this.#guard(this.#beginWhenReady());
        },
        refused: ({ code, message }) => this.#send({ type: "refused", code, message }),
        ended: (seats) => this.#ended(seats),
        distrusted: (seats) => this.#handBack(this.#at(seats)),
        stranded: (rows) => this.#handBack(rows),
        outdated: (rows) =>
          void readOutdated(rows, {
            database: this.#database,
            held: this.#held,
            report: this.#report,
            updated: (held) => this.#crew.takeUpdated(held),
            lost: (held) => this.#handBack([held]),
          }),
        lost: (thread, session, rows) =>
          this.#flushers.lost(thread, session, (flusher) =>
            rows.filter(
              ({ seat, generation }) => this.#flusherOf(this.#held.at(seat, generation)) === flusher,
            ),
          ),
        attach: (thread, session, ports) => this.#flushers.attach(thread, session, ports),
        health: (ready) => {
          this.#executorsReady = ready;
          this.#tellHealth();
        },
        log: (level, message, fields) => this.#report.log(level, message, fields),
        fatal: (error) => this.fatal(error),
      },
    });
  }

  #ended(seats: readonly number[]): void {
    const counts = this.#countByQueue(this.#at(seats));
    for (const picker of this.#pickers) {
      const count = counts.get(picker.queueIndex) ?? 0;
      if (count > 0) picker.ended(count);
      else if (seats.length === 0) picker.look();
    }
  }

  // --- the flushers --------------------------------------------------------------------------------------------------

  #makeCommits(): Commits {
    return new Commits({
      count: this.#plan.specs.length,
      report: this.#report,
      continued: {
        held: this.#held,
        carry: (rows) => this.#crew.continued(rows),
        ask: (rows) => this.#runAhead.ask(rows),
        pickers: () => this.#pickers,
      },
      release: (rows) => this.#release(rows),
      heed: (dues) => this.#news.heed(dues),
      hintDeadline: (inMs) => this.#timers.hintDeadline(inMs),
      steps: (message) => this.#send(message),
      onReady: () => this.#guard(this.#beginWhenReady()),
      onConnection: (flusher, error) => {
        this.#connectionChanged(`flusher ${flusher}`, error);
        this.#tellHealth();
        if (error === undefined) for (const picker of this.#pickers) picker.look();
      },
    });
  }

  /** CO2. */
  #release(rows: readonly FlushedRow[]): void {
    const released: HeldRow[] = [];
    for (const { seat, generation } of rows) {
      const held = this.#held.release(seat, generation);
      if (held !== undefined) released.push(held);
    }
    this.#crew.released(released);
    const keys = released.map((held) => held.concurrencyKey).filter((key) => key !== null);
    if (keys.length > 0) for (const picker of this.#pickers) picker.freed(keys);
    for (const [queueIndex, count] of this.#countByQueue(released))
      this.#pickers[queueIndex]?.released(count);
  }

  #handBack(rows: readonly HeldRow[]): void {
    for (let flusher = 0; flusher < this.#flushers.count; flusher++) {
      this.#flushers.handBack(
        flusher,
        rows.filter((held) => this.#flusherOf(held) === flusher).map(toLostRow),
      );
    }
  }

  // --- the database, the name, the end -------------------------------------------------------------------------------

  async #extendLeases(options: { all: boolean }): Promise<number> {
    const { heartbeatIntervalMs } = this.#task.settings;
    if (this.#held.count === 0) return heartbeatIntervalMs;
    const report = await this.#database.run("keeper", (connection) =>
      this.#lease.extend(connection, options),
    );
    this.#report.event("heartbeat", { ...report });
    return report.locked > 0 ? heartbeatIntervalMs / LOCKED_LEASE_PART : heartbeatIntervalMs;
  }

  #suspect(): void {
    this.#database.suspect();
    this.#flushers.suspect();
  }

  /** `error`: why a part has no connection; undefined: it has one. */
  #connectionChanged(part: string, error: unknown): void {
    if (isSilence(error)) this.#suspect();
    if (error === undefined) this.#send({ type: "connection", part, isUp: true });
    else this.#send({ type: "connection", part, isUp: false, error: lossOf(error) });
  }

  #databaseChanged(isUp: boolean): void {
    if (isUp) this.#connectionChanged("coordinator", undefined);
    this.#tellHealth();
    if (isUp) this.#news.lookEverywhere();
  }

  /** The old id was declared dead: what has not begun goes back, if it is still ours; new claims carry the new id. */
  #renamed(node: string): void {
    this.#node = node;
    this.#guard(enterKnown(this.#database, node, this.#catalogue ?? []));
    this.#handBack([...this.#crew.recallUnstarted(), ...this.#pickers.flatMap((picker) => picker.recall())]);
    this.#leaseDuty.wake();
  }

  async #drain(): Promise<void> {
    if (this.#phase === "draining" || this.#phase === "ended") return;
    this.#phase = "draining";
    void this.#once?.stop();
    void this.#runAhead.stop();
    void this.#timers.stop();
    void this.#reaper?.stop();
    void this.#collector?.stop();
    const isClean = await drain({
      drainTimeoutMs: this.#task.settings.drainTimeoutMs,
      pickers: this.#pickers,
      queues: this.#queues,
      flusherOfQueue: this.#plan.flusherOfQueue,
      flushers: this.#flushers,
      database: this.#database,
      report: this.#report,
      recallUnstarted: () => this.#crew.recallUnstarted(),
      begunCount: (queueIndex) => this.#crew.running(queueIndex),
      abortRunning: () => this.#crew.abortAll("shutdown"),
      closeCrew: () => this.#crew.close(),
      flushersDrained: () => this.#commits.drained(),
      claimPrefix: `${this.#node}/`,
    });
    this.#phase = "ended";
    const clean = isClean && this.#held.count === 0;
    // Each of these is bounded by itself; a database that is down delays none of them for long.
    await Promise.all([
      this.#news.stop(),
      this.#flushers.terminate(),
      this.#leaseDuty.stop(),
      this.#doubts.stop(),
      this.#database.close(),
    ]);
    this.#send({ type: "drained", clean });
  }

  // --- small questions -----------------------------------------------------------------------------------------------

  #tellHealth(): void {
    this.#send({
      type: "health",
      executorsReady: this.#executorsReady,
      executorsWanted: this.#task.settings.workers,
      databaseUp: this.#database.isUp && this.#commits.areUp,
    });
  }

  #at(seats: readonly number[]): HeldRow[] {
    return seats.map((seat) => this.#held.at(seat)).filter((held) => held !== undefined);
  }

  #flusherOf(held: HeldRow | undefined): number | undefined {
    return held === undefined ? undefined : this.#plan.flusherOfQueue[held.queueIndex];
  }

  #countByQueue(rows: readonly HeldRow[]): Map<number, number> {
    const counts = new Map<number, number>();
    for (const { queueIndex } of rows) counts.set(queueIndex, (counts.get(queueIndex) ?? 0) + 1);
    return counts;
  }

  /** CO3: a part's promise that nobody waits for. */
  #guard(work: Promise<void>): void {
    work.catch((error) => this.fatal(error));
  }
}
