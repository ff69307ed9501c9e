// Flush: commits outcomes, many in one transaction. Plain over a session: the flusher thread and the testing helpers
// both run it.
// F1  An outcome is answered as committed only after COMMIT has returned.
// F2  What one row cannot store, or has to wait for, costs no other row: the batch is split until it stands alone.
// F3  Whatever fails, every outcome is answered once, or handed back in FlushInterrupted.

import { setTimeout as sleep } from "node:timers/promises";
import { classifyFailure, isUniqueViolation } from "#core/database/failure.js";
import { pauseAt } from "#core/pausePoint.js";
import type { QueueDue } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { applyBatch } from "./apply.js";
import { emptyResult, type FlushEnv, type FlushResult, mergeResult, type Session } from "./env.js";

/** Deadlocks and serialization failures: so often the same batch is tried again before it is halved. */
const CONTENDED_RETRIES_MAX = 5;
const CONTENDED_DELAY_MS = 5;
/** A correlation key that was taken between look and write: so often the row looks again before it gives its identity up. */
const ENTER_RETRIES_MAX = 2;
/** Waits that one flush sits out to their timeout; what would have to wait after that is put off untried. */
const WAITS_MAX = 3;
/** A reason that the engine writes itself. */
const REASON_CHARS_MAX = 2_000;

/** A transaction whose COMMIT was sent and not answered. */
export interface Unanswered {
  xid: string;
  outcomes: readonly WireOutcome[];
  /** What is true if it is committed. */
  result: FlushResult;
  owed: readonly QueueDue[];
}

/**
 * The connection was lost, or Postgres refused for a reason (`cause`) that no splitting cures. What was answered before
 * stands; the rest is as it was, except for one open question.
 */
export class FlushInterrupted extends Error {
  readonly done: FlushResult;
  readonly unanswered: Unanswered | null;
  readonly rest: readonly WireOutcome[];

  constructor(
    cause: unknown,
    done: FlushResult,
    unanswered: Unanswered | null,
    rest: readonly WireOutcome[],
  ) {
    super("the flush was interrupted", { cause });
    this.name = "FlushInterrupted";
    this.done = done;
    this.unanswered = unanswered;
    this.rest = rest;
  }
}

interface Attempt {
  outcomes: readonly WireOutcome[];
  /** Tries that failed for reasons which may pass. */
  retries: number;
  /** The one outcome of this attempt stands in for this one: its failure, or the same without running on. */
  original: WireOutcome | null;
  /** What is left of a batch that had to wait: this part may have to wait as well. */
  waits: boolean;
  /** The outcome's own write was refused; a failure is written in its place. */
  condemned: boolean;
  releaseIdentities: boolean;
}

/**
 * Commits outcomes. Usually one transaction; a batch that cannot commit as a whole is split.
 * @throws FlushInterrupted when the connection is lost, or when the failure is neither data nor contention.
 */
export async function flush(
  session: Session,
  outcomes: readonly WireOutcome[],
  env: FlushEnv,
): Promise<FlushResult> {
  const total = emptyResult();
  let waited = 0;
  const work: Attempt[] = [
    { outcomes, retries: 0, original: null, waits: false, condemned: false, releaseIdentities: false },
  ];
  for (let attempt = work.pop(); attempt !== undefined; attempt = work.pop()) {
    if (attempt.outcomes.length === 0) continue;
    if (attempt.waits && waited >= WAITS_MAX) {
      total.deferred.push(...originals(attempt).map((outcome) => ({ outcome, reason: "waited" as const })));
      continue;
    }
    const open: OpenTransaction = { unanswered: null, entering: new Set() };
    try {
      mergeResult(total, await commitBatch(session, attempt, env, open));
    } catch (error) {
      const failure = classifyFailure(error);
      if (failure !== "connection") await session.command(env.transaction.rollback).catch(() => undefined);
      if (failure === "connection" || failure === "other") {
        const unanswered = failure === "connection" ? open.unanswered : null;
        const unsent = unanswered === null ? [...work, attempt] : work;
        throw new FlushInterrupted(error, total, unanswered, unsent.flatMap(originals));
      }
      if (isLockTimeout(error)) waited++;
      else if (failure === "contention") await sleep(contendedDelayMs(attempt.retries));
      const { again, deferred, refused } = afterFailure(attempt, error, failure, open.entering);
      work.push(...again);
      if (deferred !== null) total.deferred.push({ outcome: deferred, reason: "waited" });
      if (refused !== null) mergeResult(total, refused);
    }
  }
  return total;
}

interface OpenTransaction {
  unanswered: Unanswered | null;
  entering: ReadonlySet<WireOutcome>;
}

async function commitBatch(
  session: Session,
  attempt: Attempt,
  env: FlushEnv,
  open: OpenTransaction,
): Promise<FlushResult> {
  await session.command(env.transaction.begin);
  const applied = await applyBatch(session, attempt.outcomes, env, {
    releaseIdentities: attempt.releaseIdentities,
    onLocked: (entering) => {
      open.entering = entering;
    },
  });
  const { owed, xid } = applied;
  const result = asOriginal(applied.result, attempt);
  if (xid !== null) open.unanswered = { xid, outcomes: originals(attempt), result, owed };
  await pauseAt("flush.applied");
  await session.command(env.transaction.commit);
  env.poke?.gate.owe(owed);
  return result;
}

interface Consequence {
  again: Attempt[];
  deferred: WireOutcome | null;
  refused: FlushResult | null;
}

/** What to do about a batch that Postgres has refused: the rules of splitting, without any statement. */
export function afterFailure(
  attempt: Attempt,
  error: unknown,
  failure: "contention" | "data" | "constraint",
  entering: ReadonlySet<WireOutcome>,
): Consequence {
  const { outcomes, retries } = attempt;
  const [alone] = outcomes.length === 1 ? outcomes : [];
  const again = (...attempts: Attempt[]): Consequence => ({ again: attempts, deferred: null, refused: null });

  if (failure === "contention" && !isLockTimeout(error) && retries < CONTENDED_RETRIES_MAX) {
    return again({ ...attempt, retries: retries + 1 });
  }
  if (failure === "contention") {
    if (alone !== undefined) return { again: [], deferred: attempt.original ?? alone, refused: null };
    return again(...(isLockTimeout(error) ? partWaiting(attempt, entering) : halves(attempt)));
  }
  if (failure === "constraint" && isUniqueViolation(error, "gen_durable_correlation")) {
    // Whoever took the key is committed now, so the next look sees it.
    if (retries < ENTER_RETRIES_MAX) return again({ ...attempt, retries: retries + 1 });
    if (alone !== undefined && !attempt.releaseIdentities)
      return again({ ...attempt, releaseIdentities: true });
  }
  if (alone === undefined) return again(...halves(attempt));
  if (alone.decision.kind === "next" && alone.decision.inline && failure === "constraint") {
    // Its next key is held elsewhere: it cannot run on, and goes back to its queue.
    const requeued: WireOutcome = { ...alone, decision: { ...alone.decision, inline: false } };
    return again({ ...attempt, outcomes: [requeued], original: attempt.original ?? alone });
  }
  if (!attempt.condemned) return again(condemn(attempt, alone, error));
  return { again: [], deferred: null, refused: refusal(attempt.original ?? alone, error) };
}

/** The outcome cannot be stored: its instance fails, with what Postgres said. */
function condemn(attempt: Attempt, outcome: WireOutcome, error: unknown): Attempt {
  const reason = `the outcome of step "${outcome.step}" could not be stored: ${describe(error)}`;
  const failed: WireOutcome = {
    ...outcome,
    decision: { kind: "stop", reason: reason.slice(0, REASON_CHARS_MAX) },
  };
  return { ...attempt, outcomes: [failed], original: attempt.original ?? outcome, condemned: true };
}

/** Not even its failure can be stored. The row is given up: its lease ends, and the reaper takes it. */
function refusal(outcome: WireOutcome, error: unknown): FlushResult {
  const result = emptyResult();
  result.stale.push(outcome);
  result.events.push({
    name: "refused",
    fields: { id: outcome.id, fsm: outcome.fsm, step: outcome.step, error: describe(error) },
  });
  return result;
}

function originals({ outcomes, original }: Attempt): readonly WireOutcome[] {
  return original === null ? outcomes : [original];
}

/** What stands in for an outcome is answered as that outcome; a failure in its place is told. */
function asOriginal(result: FlushResult, { outcomes, original, condemned }: Attempt): FlushResult {
  const [alone] = outcomes;
  if (original === null || alone === undefined) return result;
  const own = (outcome: WireOutcome): WireOutcome => (outcome === alone ? original : outcome);
  result.committed = result.committed.map(own);
  result.stale = result.stale.map(own);
  result.deferred = result.deferred.map(({ outcome, reason }) => ({ outcome: own(outcome), reason }));
  if (condemned && result.committed.length > 0 && alone.decision.kind === "stop") {
    const { id, fsm, step } = original;
    result.events.push({ name: "unstorable", fields: { id, fsm, step, error: alone.decision.reason } });
  }
  return result;
}

function halves(attempt: Attempt): Attempt[] {
  const middle = attempt.outcomes.length >> 1;
  return [
    { ...attempt, retries: 0, outcomes: attempt.outcomes.slice(middle) },
    { ...attempt, retries: 0, outcomes: attempt.outcomes.slice(0, middle) },
  ];
}

/** After a wait: those that can have waited apart from those that cannot, so that the others commit next. */
function partWaiting(attempt: Attempt, entering: ReadonlySet<WireOutcome>): Attempt[] {
  const waits = attempt.outcomes.filter((outcome) => entering.has(outcome) || insertsIdentity(outcome));
  if (waits.length === 0 || waits.length === attempt.outcomes.length) {
    // Whoever is put off untried should not be the same every time.
    const parts = halves({ ...attempt, waits: true });
    return Math.random() < 0.5 ? parts : parts.reverse();
  }
  const waiting = new Set(waits);
  const free = attempt.outcomes.filter((outcome) => !waiting.has(outcome));
  return [
    { ...attempt, retries: 0, outcomes: waits, waits: true },
    { ...attempt, retries: 0, outcomes: free },
  ];
}

function insertsIdentity({ decision }: WireOutcome): boolean {
  return decision.kind === "children" && decision.children.some((child) => child.correlationKey !== null);
}

function isLockTimeout(error: unknown): boolean {
  return (error as { code?: unknown }).code === "55P03";
}

function contendedDelayMs(retries: number): number {
  return CONTENDED_DELAY_MS * 2 ** retries * (0.5 + Math.random());
}

function describe(error: unknown): string {
  const { message, code } = error as { message?: unknown; code?: unknown };
  return `${String(message)}${typeof code === "string" ? ` (${code})` : ""}`;
}
