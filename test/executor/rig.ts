// Rig: a crew with real threads and no database. Rows are made here, outcomes are unpacked here, and what the crew
// tells is kept for the test to look at.

import type { MessagePort } from "node:worker_threads";
import { Crew } from "#coordinator/crew/crew.js";
import { type HeldRow, HeldTable } from "#coordinator/held.js";
import { monotonicMs } from "#core/clock.js";
import { Ledger } from "#core/ledger.js";
import { type OutcomeBatch, unpackOutcomes } from "#core/protocol/codec.js";
import type { CatalogueEntry, ExecutorLog, WireError } from "#core/protocol/executor.js";
import type { ContinuedRow, LostRow, ToRunner } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import type { NodeSettings } from "#core/settings.js";
import { until } from "../support/until.js";

export interface RigOptions {
  workers?: number;
  queues?: Record<string, number>;
  modules?: string[];
  heapMb?: number;
  crashLimit?: number;
  /** Whether a lost row comes back by itself, as the database would give it: a crash and an attempt more. Default true. */
  returnsLost?: boolean;
}

export function fixture(name: string): string {
  return new URL(`./fixtures/${name}`, import.meta.url).pathname;
}

export interface Logged {
  level: string;
  message: string;
  fields: Record<string, unknown>;
}

export class Rig {
  readonly ledger: Ledger;
  readonly held: HeldTable;
  readonly crew: Crew;
  readonly outcomes = new Map<number, WireOutcome>();
  /** Ids in the order of their outcomes. */
  readonly order: number[] = [];
  /** Commits of chains, which the test tells the crew of when it likes. */
  readonly continued: { held: HeldRow; to: ContinuedRow }[] = [];
  /** For each batch of outcomes, how many. */
  readonly batches: number[] = [];
  readonly lost: LostRow[] = [];
  readonly distrusted: number[] = [];
  readonly stranded: number[] = [];
  readonly outdated: HeldRow[] = [];
  readonly logs: Logged[] = [];
  readonly records: Record<string, unknown>[] = [];
  dropped = 0;
  readonly health: { ready: number; wanted: number }[] = [];
  readonly sessions: { thread: number; session: number }[] = [];
  refusal: WireError | undefined;
  fatal: Error | undefined;
  catalogue: readonly CatalogueEntry[] | undefined;
  /** Crashes of each row, by id. */
  readonly crashes = new Map<number, number>();
  readonly #queues: string[];
  readonly #options: RigOptions;
  #ids = 0;

  constructor(options: RigOptions = {}) {
    this.#options = options;
    const queues = options.queues ?? { default: 10 };
    this.#queues = Object.keys(queues);
    const workers = options.workers ?? 2;
    this.ledger = Ledger.create({ threads: workers, queues: this.#queues.length, flushers: 1 });
    this.held = new HeldTable(this.ledger);
    const settings = {
      workers,
      workerHeapMb: options.heapMb ?? 128,
      queues,
      modules: (options.modules ?? [fixture("steps.mjs")]).map((file) => ({ source: file, file })),
      maxPayloadBytes: 1_000_000,
      crashLimit: options.crashLimit ?? 10,
      inlineMaxMs: 5_000,
      rateLimits: {},
      concurrencyLimits: {},
    } as Partial<NodeSettings> as NodeSettings; // what the crew reads of it
    this.crew = new Crew({
      settings,
      ledger: this.ledger,
      held: this.held,
      queues: this.#queues,
      flusherOfQueue: this.#queues.map(() => 0),
      logPort: {
        postMessage: (port: MessagePort) => {
          port.on("message", ({ records, dropped }: ExecutorLog) => {
            this.records.push(...records);
            this.dropped += dropped;
          });
          port.unref();
        },
      },
      events: {
        ready: (catalogue) => {
          this.catalogue = catalogue;
        },
        refused: (error) => {
          this.refusal = error;
        },
        ended: () => {},
        distrusted: (seats) => {
          for (const seat of seats) {
            const row = this.held.at(seat);
            if (row === undefined) continue;
            this.distrusted.push(row.row.id);
            this.held.release(seat, row.row.generation);
          }
        },
        lost: (_thread, _session, rows) => this.#lose(rows),
        stranded: (rows) => {
          for (const { row } of rows) {
            this.stranded.push(row.id);
            this.held.release(row.seat, row.generation);
          }
        },
        outdated: (rows) => {
          this.outdated.push(...rows);
        },
        attach: (thread, session, ports) => {
          this.sessions.push({ thread, session });
          const [port] = ports;
          port?.on("message", (batch: OutcomeBatch) => this.#receive(thread, port, batch));
        },
        health: (ready, wanted) => {
          this.health.push({ ready, wanted });
        },
        log: (level, message, fields) => {
          this.logs.push({ level, message, fields });
        },
        fatal: (error) => {
          this.fatal = error;
        },
      },
    });
  }

  /** Starts the crew and waits until every thread is ready. */
  async start(): Promise<this> {
    this.crew.start();
    await until(() => this.refusal ?? this.isWhole(), { describe: "all threads ready" });
    return this;
  }

  isWhole(): boolean {
    const last = this.health.at(-1);
    return last !== undefined && last.ready === last.wanted;
  }

  /** Claimed rows of a machine, one a state; not dispatched. */
  rows(
    fsm: string,
    states: readonly object[],
    more: Partial<ClaimedRow> & { trustedForMs?: number } = {},
  ): HeldRow[] {
    const { trustedForMs = 60_000, ...facts } = more;
    return states.map((state) => this.#hold({ ...this.#row(fsm, state), ...facts }, trustedForMs));
  }

  /** Dispatches rows and returns their ids. */
  run(
    fsm: string,
    states: readonly object[],
    more: Partial<ClaimedRow> & { trustedForMs?: number } = {},
  ): number[] {
    const rows = this.rows(fsm, states, more);
    this.crew.dispatch(rows);
    return rows.map(({ row }) => row.id);
  }

  /** Waits for the outcomes of these rows. */
  async outcomesOf(ids: readonly number[], timeoutMs = 15_000): Promise<WireOutcome[]> {
    await until(() => ids.every((id) => this.outcomes.has(id)), {
      timeoutMs,
      describe: () =>
        `outcomes of ${ids
          .filter((id) => !this.outcomes.has(id))
          .slice(0, 10)
          .join(", ")}`,
    });
    return ids.map((id) => this.outcomes.get(id) as WireOutcome); // the wait above
  }

  async outcomeOf(id: number, timeoutMs?: number): Promise<WireOutcome["decision"]> {
    const [outcome] = await this.outcomesOf([id], timeoutMs);
    return (outcome as WireOutcome).decision; // one for one
  }

  async close(): Promise<void> {
    await this.crew.close();
  }

  #row(fsm: string, state: object): ClaimedRow {
    return {
      id: ++this.#ids,
      claim: "node/1",
      seat: -1,
      generation: -1,
      fsm,
      version: 1,
      step: fsm === "job" ? "perform" : "start",
      state: JSON.stringify(state),
      attempt: 0,
      visit: 0,
      crashes: 0,
      reaps: 0,
      queue: this.#queues[0] ?? "default",
      priority: 0,
      awaits: [],
      awaitSeen: [],
      wokenBy: null,
      inbox: null,
      children: null,
      parentId: null,
      parentVisit: null,
      cancelReason: null,
      verdict: null,
    };
  }

  #hold(row: ClaimedRow, trustedForMs = 60_000): HeldRow {
    const nowMs = monotonicMs();
    return this.held.hold(row, {
      queueIndex: this.#queues.indexOf(row.queue),
      claimedAtMs: nowMs,
      trustedUntilMs: nowMs + trustedForMs,
    });
  }

  #receive(thread: number, port: MessagePort, batch: OutcomeBatch): void {
    const outcomes = unpackOutcomes(batch);
    this.batches.push(outcomes.length);
    this.ledger.outcomesArrive(thread, 0, outcomes.length);
    for (const outcome of outcomes) {
      if (this.#runsAhead(port, outcome)) continue;
      if (this.outcomes.has(outcome.id)) throw new Error(`a second outcome of ${outcome.id}`);
      this.outcomes.set(outcome.id, outcome);
      this.order.push(outcome.id);
      this.held.release(outcome.seat, outcome.generation);
    }
  }

  /** What a flusher does after the commit of a chain's step: it tells the thread, and the coordinator. */
  #runsAhead(port: MessagePort, { seat, generation, visit, decision }: WireOutcome): boolean {
    if (decision.kind !== "next" || !decision.inline) return false;
    const held = this.held.at(seat, generation);
    if (held === undefined) return false;
    const { step, key } = decision;
    this.continued.push({
      held,
      to: { seat, generation, step, visit: visit + 1, key, needsAdmission: false },
    });
    this.ledger.chain(seat, generation, monotonicMs());
    port.postMessage({
      type: "committed",
      tenancies: [seat, generation],
      inputs: [],
    } satisfies ToRunner);
    return true;
  }

  /** What flusher and claim do in the database: keep what arrived, return the rest with a crash. */
  #lose(rows: readonly LostRow[]): void {
    // The port is drained first; what was posted is handled in a later turn here.
    setTimeout(() => {
      const again: HeldRow[] = [];
      for (const lost of rows) {
        const row = this.held.release(lost.seat, lost.generation);
        if (row === undefined) continue;
        this.lost.push(lost);
        if (lost.begun) this.crashes.set(lost.id, (this.crashes.get(lost.id) ?? 0) + 1);
        if (this.#options.returnsLost === false) continue;
        const { attempt, crashes } = row.row;
        again.push(
          this.#hold({
            ...row.row,
            attempt: attempt + 1,
            crashes: crashes + (lost.begun ? 1 : 0),
            verdict: null,
          }),
        );
      }
      if (again.length > 0) this.crew.dispatch(again);
    }, 20);
  }
}

/** Runs a test with a crew, and closes it whatever happens. */
export async function withRig(options: RigOptions, test: (rig: Rig) => Promise<void>): Promise<void> {
  const rig = new Rig(options);
  try {
    await test(await rig.start());
  } finally {
    await rig.close();
  }
}
