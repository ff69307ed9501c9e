// Testing: runs instances inside a test, in its own process and on its own connection, through the production SQL.
// Exported as `gen-durable/testing`.

import { fireTimeouts } from "#coordinator/deadlines.js";
import { monotonicMs } from "#core/clock.js";
import { CRASH_LIMIT_DEFAULT, MAX_PAYLOAD_BYTES_DEFAULT } from "#core/config/configShape.js";
import { Statements } from "#core/database/statements.js";
import type { FsmDefinition } from "#core/definition/definition.js";
import { DefinitionRegistry } from "#core/definition/registry.js";
import type { StepLog } from "#core/definition/stepContext.js";
import type { Status } from "#core/instance.js";
import { type DrainEnvironment, type DrainOptions, type DrainTally, drain } from "./testing/drain.js";
import {
  type InstanceView,
  readInstance,
  requireAwaiting,
  requireDone,
  requireFailed,
  requireStatus,
} from "./testing/instance.js";
import { openSession, type TestClient } from "./testing/session.js";

export { DrainLimitError, type DrainOptions, type DrainTally } from "./testing/drain.js";
export type { InstanceView } from "./testing/instance.js";
export type { TestClient } from "./testing/session.js";

export interface TesterOptions {
  /** A connected `pg` client. Inside a transaction of the test's, everything can be rolled back; outside, it commits. */
  client: TestClient;
  /** The machines and jobs that the test runs. */
  fsms: readonly FsmDefinition[];
  /** The schema's name. Default `gen_durable`. It must be migrated. */
  schema?: string;
  /** Where `ctx.log` of the steps goes. Default: nowhere. */
  log?: StepLog;
}

export interface Tester {
  /** Runs until nothing is runnable. @throws DrainLimitError after `maxSteps` steps. */
  drain(options?: DrainOptions): Promise<DrainTally>;
  /** Wakes every instance that awaits with a deadline, as if it had passed; answers how many. The next drain runs them. */
  fireTimeouts(): Promise<number>;
  /** @throws AssertionError, here and below: the message says what the instance is instead. */
  assertStatus(id: number, status: Status): Promise<InstanceView>;
  /** Done, with a result equal to `result` where one is given. */
  assertDone(id: number, result?: unknown): Promise<InstanceView>;
  /** Failed, with a last error that contains the text or matches the expression where one is given. */
  assertFailed(id: number, error?: string | RegExp): Promise<InstanceView>;
  /** Parked on an await, for these names where some are given. */
  assertAwaiting(id: number, ...names: string[]): Promise<InstanceView>;
  /** Reads the instance. @throws AssertionError when there is none. */
  instance(id: number): Promise<InstanceView>;
}

/** As good as for ever, and within what Postgres can hold. */
const FAR_FUTURE_MS = 150 * 365 * 86_400_000;

let testers = 0;

/** Makes the helpers for one test. Insert and signal with a client of yours: `createClient({ pool })`, or `{ tx: client }` a call. */
export function createTester(options: TesterOptions): Tester {
  const registry = new DefinitionRegistry();
  for (const fsm of options.fsms) registry.add(fsm, "the test");
  const session = openSession(options.client);
  const statements = new Statements(options.schema ?? "gen_durable");
  const log = options.log ?? silent;
  testers += 1;
  const tester = `test-${process.pid}-${testers}`;
  let claims = 0;
  const environment: DrainEnvironment = {
    session,
    statements,
    registry,
    step: {
      registry,
      limits: { maxPayloadBytes: MAX_PAYLOAD_BYTES_DEFAULT, rateBursts: null },
      crashLimit: CRASH_LIMIT_DEFAULT,
      now: monotonicMs,
      makeLog: () => log,
    },
    nextClaim: () => {
      claims += 1;
      return `${tester}/${claims}`;
    },
  };
  const instance = (id: number): Promise<InstanceView> => readInstance(session, statements, id);
  const assertThat = (check: (view: InstanceView) => void) => async (id: number) => {
    const view = await instance(id);
    check(view);
    return view;
  };
  return {
    drain: (drainOptions) => drain(environment, drainOptions),
    fireTimeouts: async () => {
      const woken = await fireTimeouts(session, statements, { asOf: new Date(Date.now() + FAR_FUTURE_MS) });
      return woken.length;
    },
    assertStatus: (id, status) => assertThat((view) => requireStatus(view, status))(id),
    assertDone: (id, result) => assertThat((view) => requireDone(view, result))(id),
    assertFailed: (id, error) => assertThat((view) => requireFailed(view, error))(id),
    assertAwaiting: (id, ...names) => assertThat((view) => requireAwaiting(view, names))(id),
    instance,
  };
}

const nothing = (): void => undefined;
const silent: StepLog = {
  trace: nothing,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  fatal: nothing,
};
