// Drain: runs everything that is runnable, in this thread, one step after the other, through the production claim, step
// and flush. Time does not pass: what is scheduled counts as due unless the test says otherwise.

import { setImmediate as turn } from "node:timers/promises";
import type { KnownDefinitions } from "#coordinator/claim.js";
import { claimLimited, pickTransaction } from "#coordinator/claimLimited.js";
import { PostgresLimiter } from "#coordinator/limiter/postgresLimiter.js";
import type { Statements } from "#core/database/statements.js";
import type { DefinitionRegistry } from "#core/definition/registry.js";
import { GenDurableError } from "#core/errors.js";
import type { DecisionKind } from "#core/protocol/outcome.js";
import { runRow, type StepEnvironment } from "#executor/step.js";
import { CALLERS_TRANSACTION } from "#flusher/env.js";
import { flush } from "#flusher/flush.js";
import type { TestSession } from "./session.js";

export interface DrainOptions {
  /** Steps that may run before the drain gives up: a machine that loops for ever fails the test instead of hanging it. Default 1,000. */
  maxSteps?: number;
  /** Whether rows that are due later run too, delays and backoffs included. Default true. */
  scheduled?: boolean;
}

/** How many steps ran, and what they decided. */
export type DrainTally = { steps: number } & Record<DecisionKind, number>;

/** More steps than `maxSteps` wanted to run. */
export class DrainLimitError extends GenDurableError {
  constructor(maxSteps: number, tally: DrainTally) {
    super(
      "usage",
      "DRAIN_LIMIT",
      `the drain stopped after maxSteps (${maxSteps}) steps and there is more to run: a machine loops, or maxSteps is too low`,
      { maxSteps, tally },
    );
  }
}

const STEPS_MAX = 1_000;
/** Rows of one claim: few, so that what a step makes runnable gets its turn by priority soon. */
const CLAIM_ROWS = 10;
/** Claims of a test are trusted for its whole life. */
const LEASE_MS = 3_600_000;
/** Rows that a claim looks at: a test's backlog behind a full gate is no deeper. */
const WINDOW_ROWS = 10_000;
/** Later than any schedule: durations end after a hundred years. */
const AFTER_EVERYTHING_MS = 150 * 365 * 86_400_000;

export interface DrainEnvironment {
  session: TestSession;
  statements: Statements;
  registry: DefinitionRegistry;
  step: StepEnvironment;
  /** Names claims; never the same twice. */
  nextClaim(): string;
}

/** Runs until nothing is runnable. @throws DrainLimitError */
export async function drain(environment: DrainEnvironment, options: DrainOptions = {}): Promise<DrainTally> {
  const { maxSteps = STEPS_MAX, scheduled = true } = options;
  const tally: DrainTally = { steps: 0, next: 0, retry: 0, await: 0, children: 0, done: 0, stop: 0 };
  const asOf = scheduled ? new Date(Date.now() + AFTER_EVERYTHING_MS) : null;
  const transaction = await environment.session.transaction();
  const pick = transaction === CALLERS_TRANSACTION ? transaction : pickTransaction(false);
  const env = {
    statements: environment.statements,
    transaction,
    leaseTtlMs: LEASE_MS,
    asOf: null,
    poke: null,
  };
  // Time does not pass for rates either: every look finds them refilled, where they refill at all.
  const limiter = new PostgresLimiter(environment.statements, {
    passedMs: scheduled ? AFTER_EVERYTHING_MS : 0,
  });
  for (let ran = true; ran; ) {
    ran = false;
    for (const queue of await listQueues(environment, asOf)) {
      const left = maxSteps - tally.steps;
      if (left <= 0) throw new DrainLimitError(maxSteps, tally);
      const { rows } = await claimLimited(
        environment.session,
        { statements: environment.statements, limiter, transaction: pick },
        {
          queue,
          claim: environment.nextClaim(),
          rowsMax: Math.min(CLAIM_ROWS, left),
          windowRows: WINDOW_ROWS,
          leaseTtlMs: LEASE_MS,
          known: knownOf(environment.registry),
          places: [],
          excluded: { keys: [], rates: [] },
          probes: [],
          asOf,
        },
      );
      for (const row of rows) {
        const outcome = await runRow(row, environment.step);
        // What runs ahead on a node runs at its next claim here: the same steps, one transaction each.
        if (outcome.decision.kind === "next") outcome.decision.inline = false;
        await flush(environment.session, [outcome], env);
        tally.steps += 1;
        tally[outcome.decision.kind] += 1;
        ran = true;
      }
    }
    // A step that never waits must not keep the test runner's timers from firing.
    await turn();
  }
  return tally;
}

async function listQueues(environment: DrainEnvironment, asOf: Date | null): Promise<string[]> {
  const rows = await environment.session.run<{ queue: string }>(
    environment.statements.get("testing/list_work"),
    [asOf],
  );
  return rows.map(({ queue }) => queue);
}

function knownOf(registry: DefinitionRegistry): KnownDefinitions {
  const catalogue = registry.catalogue();
  return { names: catalogue.map(({ name }) => name), versions: catalogue.map(({ version }) => version) };
}
