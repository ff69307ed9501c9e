// Drain: the orderly end of a node's work. Stops picking, gives back what has not begun, lets running steps end for
// `drainTimeoutMs`, commits what has ended, releases the rest.
// DR1  Nothing that is given back here gets a crash or an attempt.
// DR2  Whatever the database does, it ends within DRAIN_FACTOR times `drainTimeoutMs`; what could not be given back then
//      returns by its lease, or with the node's death.

import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#core/clock.js";
import type { LostRow } from "#core/protocol/flusher.js";
import type { Database } from "./database.js";
import type { Flushers } from "./flushers.js";
import type { HeldRow } from "./held.js";
import type { Picker } from "./picker.js";
import { releaseClaims } from "./release.js";
import type { Report } from "./report.js";

/** DR2, less a margin in which the main thread ends what is left. */
const DRAIN_FACTOR = 2;
const MARGIN_MS = 1_000;
const LOOK_MS = 10;

export interface DrainOptions {
  drainTimeoutMs: number;
  pickers: readonly Picker[];
  queues: readonly string[];
  flusherOfQueue: readonly number[];
  flushers: Flushers;
  database: Database;
  report: Report;
  /** Rows that a thread has and has not begun, taken back from it. */
  recallUnstarted(): readonly HeldRow[];
  /** Rows whose user code runs. */
  begunCount(queueIndex: number): number;
  /** Tells the running steps that the node shuts down. */
  abortRunning(): void;
  closeCrew(): Promise<void>;
  flushersDrained(): Promise<void>;
  /** This boot's claims: `<node>/`. */
  claimPrefix: string;
}

/** Drains; resolves with whether nothing is held any more. Never rejects. */
export async function drain(options: DrainOptions): Promise<boolean> {
  const { drainTimeoutMs, flushers, report } = options;
  const startedAtMs = monotonicMs();
  const endsAtMs = startedAtMs + Math.max(drainTimeoutMs, DRAIN_FACTOR * drainTimeoutMs - MARGIN_MS);
  const bounded = (work: Promise<unknown>): Promise<boolean> => within(work, endsAtMs - monotonicMs());
  try {
    await bounded(Promise.all(options.pickers.map((picker) => picker.stop())));
    giveBack(options);
    options.abortRunning();
    await stepsEnd(options, startedAtMs + drainTimeoutMs);
    await bounded(options.closeCrew());
    // What the closed threads were still running is told as lost, without a crash; the flushers give it back (DR1).
    flushers.drain();
    const drained = await bounded(options.flushersDrained());
    return drained && (await bounded(releaseRest(options)));
  } catch (error) {
    report.trouble("draining", error);
    return false;
  }
}

function giveBack(options: DrainOptions): void {
  const rows = [...options.recallUnstarted(), ...options.pickers.flatMap((picker) => picker.recall())];
  handBack(options, rows);
  for (const [queueIndex, queue] of options.queues.entries()) {
    options.report.event("drain", {
      queue,
      released: rows.filter((row) => row.queueIndex === queueIndex).length,
      inFlight: options.begunCount(queueIndex),
    });
  }
}

function handBack({ flushers, flusherOfQueue }: DrainOptions, rows: readonly HeldRow[]): void {
  for (let flusher = 0; flusher < flushers.count; flusher++) {
    flushers.handBack(
      flusher,
      rows.filter(({ queueIndex }) => flusherOfQueue[queueIndex] === flusher).map(toLostRow),
    );
  }
}

/** What a flusher needs to give a row back that is not to be charged with anything. */
export function toLostRow({ row }: HeldRow): LostRow {
  return { id: row.id, claim: row.claim, seat: row.seat, generation: row.generation, begun: false };
}

async function stepsEnd(options: DrainOptions, untilMs: number): Promise<void> {
  const begun = (): number =>
    options.queues.reduce((sum, _, queueIndex) => sum + options.begunCount(queueIndex), 0);
  while (begun() > 0 && monotonicMs() < untilMs) await delay(LOOK_MS);
}

/** Rows that a lost answer claimed, and rows that were given up on the way. */
async function releaseRest({ database, claimPrefix }: DrainOptions): Promise<void> {
  await database.run("keeper", (connection) =>
    releaseClaims(connection, database.statements, { claims: [], prefix: claimPrefix }),
  );
}

/** False when the work is not over in time, or has failed. */
async function within(work: Promise<unknown>, boundMs: number): Promise<boolean> {
  const abort = new AbortController();
  const late = delay(Math.max(boundMs, 0), false, { signal: abort.signal }).catch(() => false);
  const done = work.then(
    () => true,
    () => false,
  );
  const inTime = await Promise.race([done, late]);
  abort.abort();
  return inTime;
}
