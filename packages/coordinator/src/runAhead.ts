// Run-ahead: the admission of chains' next steps, where a limit applies to them. Many chains in one transaction, on a connection
// of the pickers, so that no flusher waits for a counter.
// RA1  Admission comes after the commit that asks for it, and only over rows that are still under the claim and at the visit of
//      that commit. Whoever has lost its row takes no slot and no token.
// RA2  A gate's slot and its shard are written in one transaction, guarded by the claim. Until then the row holds shard -1, which
//      nobody credits.
// RA3  What is denied goes back to its queue, where the picker admits it as any other row.
// RA4  When the answer of a commit was lost it is asked again: a slot is not drawn twice, a token may be.

import { setTimeout as sleep } from "node:timers/promises";
import { classifyFailure } from "#core/database/failure.js";
import type { Statements } from "#core/database/statements.js";
import { pauseAt } from "#core/pausePoint.js";
import type { TransactionTexts } from "#flusher/env.js";
import { isRace } from "./claimLimited.js";
import type { Database } from "./database.js";
import type { HeldRow, HeldTable } from "./held.js";
import type { Denial, Limiter } from "./limiter/limiter.js";
import type { Throttle } from "./limiter/throttle.js";
import type { Report } from "./report.js";

/** Rows of one transaction: it holds their counters for some milliseconds. */
const BATCH_ROWS_MAX = 500;
/** Rows that somebody has locked are asked for again after so long, and after twice that, and so on. */
const LOCKED_DELAY_MS = 2;
const LOCKED_DELAY_MS_MAX = 250;
/** Races that are lost one after the other before the rows go back to their queues. */
const RACES_MAX = 5;

export interface RunAheadOptions {
  database: Pick<Database, "run" | "isUp" | "statements">;
  transaction: TransactionTexts;
  limiter: Limiter;
  throttle: Pick<Throttle, "tell">;
  held: HeldTable;
  report: Report;
  /** The next steps of these rows may begin. */
  admitted(rows: readonly HeldRow[]): void;
  /** These rows go back to their queues. */
  denied(rows: readonly HeldRow[]): void;
}

interface Asking {
  held: HeldRow;
  generation: number;
  visit: number;
}

interface ChainedRecord {
  id: number;
  gate: string | null;
  rate: string | null;
  weight: number;
  [column: string]: unknown;
}

export class RunAhead {
  readonly #options: RunAheadOptions;
  #asking: Asking[] = [];
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(options: RunAheadOptions) {
    this.#options = options;
  }

  /** Rows whose next steps wait for their limits' leave: told by `admitted` or `denied`, or by neither where they were lost. */
  ask(rows: readonly HeldRow[]): void {
    for (const held of rows) {
      const { generation, visit } = held.row;
      this.#asking.push({ held, generation, visit });
    }
    this.#running ??= this.#run();
  }

  /** Asks nothing more. Rows that wait are given back with their threads. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    // What arrives in this turn of the loop goes together.
    await new Promise((resolve) => setImmediate(resolve));
    let delayMs = LOCKED_DELAY_MS;
    let races = 0;
    /** Rows in a row that were somebody's. */
    let inVain = 0;
    while (this.#asking.length > 0 && !this.#isStopped) {
      const batch = this.#take();
      if (batch.length === 0) continue;
      try {
        const locked = await this.#admit(batch);
        races = 0;
        this.#asking.push(...locked);
        inVain = locked.length < batch.length ? locked.length : inVain + locked.length;
        // All of what is left is somebody's just now.
        if (locked.length > 0 && inVain >= this.#asking.length) {
          inVain = 0;
          await sleep(delayMs);
          delayMs = Math.min(delayMs * 2, LOCKED_DELAY_MS_MAX);
        } else if (locked.length < batch.length) delayMs = LOCKED_DELAY_MS;
      } catch (error) {
        races++;
        await this.#recover(error, batch, races);
      }
    }
    this.#running = undefined;
  }

  #take(): Asking[] {
    const batch = this.#asking.slice(0, BATCH_ROWS_MAX);
    this.#asking = this.#asking.slice(BATCH_ROWS_MAX);
    return batch.filter((asking) => this.#isOpen(asking));
  }

  #isOpen({ held, generation, visit }: Asking): boolean {
    const { row } = held;
    return (
      this.#options.held.at(row.seat, generation) === held && row.visit === visit && held.thread !== null
    );
  }

  /** One transaction. Returns the rows that could not be locked. */
  async #admit(batch: readonly Asking[]): Promise<Asking[]> {
    const { database, limiter, transaction, throttle } = this.#options;
    const byId = new Map(batch.map((asking) => [asking.held.row.id, asking]));
    const { locked, admitted, denials } = await database.run("picker", async (connection) => {
      const { statements } = database;
      try {
        await connection.command(transaction.begin);
        const locked = await lockChained(connection, statements, batch);
        const order = new Map(batch.map(({ held }, place) => [held.row.id, place]));
        const candidates = [...locked].sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
        const admission = await limiter.admit(connection, candidates);
        await stampShards(connection, statements, byId, admission.admitted);
        await pauseAt("chain.admitted");
        await connection.command(transaction.commit);
        return { locked, ...admission };
      } catch (error) {
        if (classifyFailure(error) !== "connection")
          await connection.command(transaction.rollback).catch(() => undefined);
        throw error;
      }
    });
    const may = new Set(admitted.map(({ id }) => id));
    const isLocked = new Set(locked.map(({ id }) => id));
    const open = batch.filter((asking) => this.#isOpen(asking));
    const answered = open.filter(({ held }) => isLocked.has(held.row.id)).map(({ held }) => held);
    this.#options.admitted(answered.filter(({ row }) => may.has(row.id)));
    const denied = answered.filter(({ row }) => !may.has(row.id));
    if (denied.length > 0) {
      tellDenials(denied, locked, denials, throttle);
      this.#options.denied(denied);
    }
    return open.filter(({ held }) => !isLocked.has(held.row.id));
  }

  async #recover(error: unknown, batch: readonly Asking[], races: number): Promise<void> {
    const { report } = this.#options;
    const failure = classifyFailure(error);
    if (failure === "connection" || (isRace(error) && races <= RACES_MAX)) {
      if (failure !== "connection") report.event("contended", { queue: batch[0]?.held.row.queue ?? "" });
      this.#asking.unshift(...batch);
      await sleep(failure === "connection" ? LOCKED_DELAY_MS_MAX : LOCKED_DELAY_MS * races * Math.random());
      return;
    }
    // The picker looks at them one by one.
    if (!isRace(error)) report.trouble("admitting steps that run ahead", error);
    const open = batch.filter((asking) => this.#isOpen(asking));
    this.#options.denied(open.map(({ held }) => held));
  }
}

function lockChained(
  connection: { run: Parameters<Limiter["admit"]>[0]["run"] },
  statements: Statements,
  batch: readonly Asking[],
): Promise<ChainedRecord[]> {
  return connection.run<ChainedRecord>(statements.get("picker/lock_chained"), [
    batch.map(({ held }) => held.row.id),
    batch.map(({ held }) => held.row.claim),
    batch.map(({ visit }) => visit),
  ]);
}

/** RA2. */
async function stampShards(
  connection: { run: Parameters<Limiter["admit"]>[0]["run"] },
  statements: Statements,
  byId: ReadonlyMap<number, Asking>,
  admitted: readonly { id: number; shard: number | null }[],
): Promise<void> {
  const drawn = admitted.filter(({ shard }) => shard !== null);
  if (drawn.length === 0) return;
  await connection.run(statements.get("picker/stamp_shards"), [
    drawn.map(({ id }) => id),
    drawn.map(({ id }) => byId.get(id)?.held.row.claim ?? ""),
    drawn.map(({ shard }) => shard),
  ]);
}

/** A denial is told with the queue of the first row that it holds back. */
function tellDenials(
  denied: readonly HeldRow[],
  records: readonly ChainedRecord[],
  denials: readonly Denial[],
  throttle: Pick<Throttle, "tell">,
): void {
  const recordOf = new Map(records.map((record) => [record.id, record]));
  for (const denial of denials) {
    const first = denied.find(({ row }) => {
      const record = recordOf.get(row.id);
      return denial.key === (denial.kind === "conc" ? record?.gate : record?.rate);
    });
    if (first !== undefined) throttle.tell(first.row.queue, { denials: [denial], unknown: [] });
  }
}
