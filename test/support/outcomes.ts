// Outcomes: what an executor would post, and an environment to flush it in.

import type { Connection } from "#core/database/connection.js";
import { Statements } from "#core/database/statements.js";
import type { Decision, WireOutcome } from "#core/protocol/outcome.js";
import { type FlushEnv, LOCK_TIMEOUT_MS, ownTransaction, type Session } from "#flusher/env.js";
import type { TestDatabase } from "./database.js";
import { insertExecuting, type RowSpec } from "./rows.js";

export const CLAIM = "node/1";

/** An outcome of visit 1 under CLAIM. */
export function outcomeOf(id: number, decision: Decision, spec: Partial<WireOutcome> = {}): WireOutcome {
  return {
    id,
    claim: CLAIM,
    seat: id,
    generation: 1,
    fsm: "plain",
    version: 1,
    step: "start",
    visit: 1,
    attempt: 0,
    queue: "default",
    parentId: null,
    parentVisit: null,
    awaited: [],
    shown: [],
    hasChildren: false,
    durationMs: 0.1,
    decision,
    ...spec,
  };
}

export const done = (result = "null"): Decision => ({ kind: "done", result });
export const stop = (reason: string): Decision => ({ kind: "stop", reason });
export const retry = (delayMs = 0, state = "{}"): Decision => ({ kind: "retry", state, due: { delayMs } });
export const awaits = (names: string[], timeoutMs?: number): Decision => ({
  kind: "await",
  names,
  step: "woken",
  state: "{}",
  deadline: timeoutMs === undefined ? null : { delayMs: timeoutMs },
});
export const next = (step: string, options: Partial<Extract<Decision, { kind: "next" }>> = {}): Decision => ({
  kind: "next",
  step,
  state: "{}",
  due: null,
  rateLimit: null,
  weight: 1,
  key: undefined,
  inline: false,
  ...options,
});
export type ChildSpec = Partial<Extract<Decision, { kind: "children" }>["children"][number]>;
export const children = (specs: readonly ChildSpec[]): Decision => ({
  kind: "children",
  step: "joined",
  state: "{}",
  children: specs.map((spec) => ({
    fsm: "kid",
    version: 1,
    step: "start",
    state: "{}",
    queue: "default",
    priority: 0,
    due: null,
    concurrencyKey: null,
    rateLimit: null,
    weight: 1,
    correlationKey: null,
    correlationScope: ["runnable", "executing", "awaiting_signal", "awaiting_children"],
    ...spec,
  })),
});

/** Rows as a claim leaves them. */
export async function executingRows(
  database: TestDatabase,
  count: number,
  spec: RowSpec = {},
): Promise<number[]> {
  const ids: number[] = [];
  for (let i = 0; i < count; i++) ids.push(await insertExecuting(database, CLAIM, spec));
  return ids;
}

/** The engine's own connection, told what a flusher tells it. */
export async function flusherConnection(database: TestDatabase): Promise<Connection> {
  const connection = await database.connection({ role: "flusher test" });
  await connection.run(new Statements("gen_durable").get("flusher/state_session"), [String(LOCK_TIMEOUT_MS)]);
  return connection;
}

export function flushEnv(overrides: Partial<FlushEnv> = {}): FlushEnv {
  return {
    statements: new Statements("gen_durable"),
    transaction: ownTransaction(true),
    leaseTtlMs: 60_000,
    asOf: null,
    poke: null,
    ...overrides,
  };
}

/** A session that notes what it sends: the name of each statement's file, or the command's first word. */
export function recorded(session: Session): Session & { sent: string[] } {
  const sent: string[] = [];
  return {
    sent,
    run: (statement, values) => {
      sent.push(statement.name.replace(/_[0-9a-f]{12}$/, ""));
      return session.run(statement, values);
    },
    command: (text) => {
      sent.push(text.split(" ")[0] ?? "");
      return session.command(text);
    },
  };
}
