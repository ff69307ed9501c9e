// What a caller can get wrong, in one table: each answers with a GenDurableError that says what and where, and nothing is
// written. What a step gets wrong goes to its handle, with the same codes and paths (misfit, below).

import { afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import { childOf, createClient, defineFsm, defineJob, GenDurableError } from "gen-durable";
import { z } from "zod";
import { createAudit, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { startNode } from "../support/node.js";
import { insertRow } from "../support/rows.js";
import { misfit } from "./machines.js";

const database = await createDatabase();
const client = createClient({ pool: database.pool });
const typed = defineFsm({
  name: "typed",
  state: z.object({ n: z.number().int().positive(), note: z.string().optional() }),
  signals: { paid: z.object({ amount: z.number() }) },
  steps: { start: (ctx) => ctx.done() },
});
const free = defineFsm({ name: "free", steps: { start: (ctx) => ctx.done() } });
const parked = await insertRow(database, { status: "awaiting_signal", awaits: ["go"] });

// Callers in JavaScript can pass anything.
type Loose = (...given: unknown[]) => Promise<unknown>;
const call = (name: string): Loose => {
  const method: unknown = Reflect.get(client, name);
  return (...given) => Reflect.apply(method as Loose, client, given);
};
const [insert, insertMany, insertByName] = [call("insert"), call("insertMany"), call("insertByName")];
const [signal, signalMany, signalOrInsert] = [call("signal"), call("signalMany"), call("signalOrInsert")];
const [waitFor, cancel, retry] = [call("waitFor"), call("cancel"), call("retry")];
const [get, list] = [call("get"), call("list")];
const cycle: Record<string, unknown> = {};
cycle.self = cycle;
const ok = { n: 1 };

/** What is called, the code of its refusal, the path it names, and a word of its message. */
const CASES: [string, () => Promise<unknown>, string, string, string][] = [
  ["an unknown FSM", () => insert("nobody"), "UNKNOWN_FSM", "fsm", "insertByName"],
  ["no FSM", () => insert(undefined), "UNKNOWN_FSM", "fsm", "undefined"],
  ["an FSM that no node has registered", () => insertByName("nobody"), "UNKNOWN_FSM", "fsm", "nobody"],
  ["an empty FSM name", () => insertByName(""), "INVALID_NAME", "fsm", "empty"],
  [
    "a version that is none",
    () => insertByName("free", { version: 1.5 }),
    "INVALID_OPTION",
    "version",
    "1.5",
  ],
  [
    "a state that the schema refuses",
    () => insert(typed, { state: { n: "1" } }),
    "INVALID_STATE",
    "state.n",
    "number",
  ],
  ["a state without its field", () => insert(typed, { state: {} }), "INVALID_STATE", "state.n", "number"],
  ["no state", () => insert(typed), "INVALID_STATE", "state.n", "number"],
  [
    "the state of one of many",
    () => insertMany(typed, [{ state: ok }, { state: { n: -1 } }]),
    "INVALID_STATE",
    "rows[1].state.n",
    ">0",
  ],
  ["rows that are no array", () => insertMany(typed, 7), "INVALID_OPTION", "rows", "7"],
  ["a row that is none", () => insertMany(typed, [null]), "INVALID_OPTION", "rows[0]", "null"],
  ["a Date in a state", () => insert(free, { state: { at: new Date() } }), "UNSTORABLE", "state.at", "Date"],
  [
    "a BigInt in a state",
    () => insert(free, { state: { a: [{ b: 1n }] } }),
    "UNSTORABLE",
    "state.a[0].b",
    "BigInt",
  ],
  ["a cycle in a state", () => insert(free, { state: cycle }), "UNSTORABLE", "state.self", ""],
  ["a NUL in a state", () => insert(free, { state: { t: "\0" } }), "UNSTORABLE", "state.t", "NUL"],
  ["a NaN in a state", () => insert(free, { state: { n: Number.NaN } }), "UNSTORABLE", "state.n", "NaN"],
  ["a delay of NaN", () => insert(free, { delayMs: Number.NaN }), "INVALID_SCHEDULE", "delayMs", "NaN"],
  ["a negative delay", () => insert(free, { delayMs: -1 }), "INVALID_SCHEDULE", "delayMs", "-1"],
  ["a delay of a text", () => insert(free, { delayMs: "5" }), "INVALID_SCHEDULE", "delayMs", "5"],
  [
    "an instant that is none",
    () => insert(free, { at: new Date("never") }),
    "INVALID_SCHEDULE",
    "at",
    "invalid Date",
  ],
  ["delay and instant", () => insert(free, { delayMs: 1, at: 1 }), "INVALID_SCHEDULE", "delayMs", "exclude"],
  ["a misspelt option", () => insert(free, { priorty: 1 }), "INVALID_OPTION", "priorty", "priority"],
  ["a priority of 1.5", () => insert(free, { priority: 1.5 }), "INVALID_OPTION", "priority", "1.5"],
  ["an empty queue", () => insert(free, { queue: "" }), "INVALID_NAME", "queue", "empty"],
  ["an empty key", () => insert(free, { correlationKey: "" }), "INVALID_NAME", "correlationKey", "empty"],
  [
    "a key of 513 bytes",
    () => insert(free, { correlationKey: "x".repeat(513) }),
    "INVALID_NAME",
    "correlationKey",
    "512",
  ],
  [
    "a scope of no status",
    () => insert(free, { correlationScope: ["asleep"] }),
    "INVALID_OPTION",
    "correlationScope[0]",
    "asleep",
  ],
  ["a transaction that is none", () => insert(free, { tx: {} }), "INVALID_TX", "tx", "query"],
  ["an empty signal name", () => signal(parked, ""), "INVALID_NAME", "name", "empty"],
  ["no signal name", () => signal(parked), "INVALID_NAME", "name", "undefined"],
  [
    "a payload that cannot be JSON",
    () => signal(parked, "go", { f: () => 1 }),
    "UNSTORABLE",
    "payload.f",
    "function",
  ],
  [
    "a payload that the schema refuses",
    () => signal(parked, "paid", {}, { fsm: typed }),
    "INVALID_PAYLOAD",
    "payload.amount",
    "number",
  ],
  [
    "a signal that the FSM has not",
    () => signal(parked, "pade", {}, { fsm: typed }),
    "UNKNOWN_SIGNAL",
    "name",
    "paid",
  ],
  ["a target of 1.5", () => signal(1.5, "go"), "INVALID_TARGET", "target", "1.5"],
  ["an empty target", () => signal("", "go"), "INVALID_NAME", "target", "empty"],
  [
    "an empty dedup key",
    () => signal(parked, "go", 1, { dedupKey: "" }),
    "INVALID_NAME",
    "dedupKey",
    "empty",
  ],
  [
    "one of many signals",
    () =>
      signalMany([
        { target: parked, name: "go" },
        { target: parked, name: 7 },
      ]),
    "INVALID_NAME",
    "signals[1].name",
    "7",
  ],
  [
    "signalOrInsert without a key",
    () => signalOrInsert(free, {}, "go"),
    "INVALID_OPTION",
    "correlationKey",
    "key",
  ],
  ["a negative timeout", () => waitFor(parked, { timeoutMs: -1 }), "INVALID_OPTION", "timeoutMs", "-1"],
  [
    "a timeout of NaN",
    () => waitFor(parked, { timeoutMs: Number.NaN }),
    "INVALID_OPTION",
    "timeoutMs",
    "NaN",
  ],
  ["an answer that is none", () => waitFor(parked, { until: ["parked"] }), "INVALID_OPTION", "until", "done"],
  ["an id that is a text", () => waitFor("7"), "INVALID_TARGET", "id", "7"],
  ["a reason that is no text", () => cancel(parked, 7), "INVALID_OPTION", "reason", "7"],
  ["a flag that is none", () => cancel(parked, "", { force: "yes" }), "INVALID_OPTION", "force", "yes"],
  ["a retry of id 0", () => retry(0), "INVALID_TARGET", "id", "0"],
  ["a get of NaN", () => get(Number.NaN), "INVALID_TARGET", "id", "NaN"],
  ["a filter of no status", () => list({ status: "asleep" }), "INVALID_OPTION", "filter.status", "asleep"],
  ["a page of none", () => list({}, { limit: 0 }), "INVALID_OPTION", "page.limit", "0"],
];

describe("a client's call", () => {
  const rows = () =>
    database.one(
      "SELECT (SELECT json_agg(g) FROM gen_durable g) AS instances, (SELECT count(*) FROM signals) AS signals",
    );
  let before: unknown;
  beforeAll(async () => {
    before = await rows();
  });
  afterEach(async () => {
    expect(await rows()).toEqual(before);
  });

  test.each(CASES)("%s", async (_, refused, code, path, word) => {
    const error: unknown = await refused().then(
      (answer) => new Error(`it was accepted: ${JSON.stringify(answer)}`),
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(GenDurableError);
    expect(error).toMatchObject({
      code: `ERR_GEN_DURABLE_${code}`,
      path,
      kind: "usage",
      retryable: false,
      message: expect.stringContaining(word),
    });
  });
});

test("a definition that is none is refused where it is made", () => {
  const define = defineFsm as unknown as (options: unknown) => unknown;
  const job = defineJob as unknown as (options: unknown) => unknown;
  const steps = { start: () => undefined };
  const refused: [() => unknown, string, string][] = [
    [() => define({ name: "", steps }), "INVALID_NAME", "name"],
    [() => define({ name: "x", steps: {} }), "INVALID_DEFINITION", "steps"],
    [() => define({ name: "x", steps, initial: "strat" }), "INVALID_DEFINITION", "initial"],
    [() => define({ name: "x", steps, onCancel: "undo" }), "INVALID_DEFINITION", "onCancel"],
    [() => define({ name: "x", steps, version: 0 }), "INVALID_DEFINITION", "version"],
    [() => job({ name: "x" }), "INVALID_DEFINITION", "perform"],
    [() => job({ name: "x", perform: () => 1, maxAttempts: 0 }), "INVALID_DEFINITION", "maxAttempts"],
  ];
  for (const [make, code, path] of refused) {
    let error: unknown;
    try {
      make();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ code: `ERR_GEN_DURABLE_${code}`, path: expect.stringContaining(path) });
  }
  // What is wrong with a child is seen when its parent's outcome is.
  expect(() => childOf("nobody")).not.toThrow();
});

test("ERR-04, ERR-05, OUT-08 to OUT-14: what a step gets wrong goes to its handle, once, with code and path", async () => {
  await createAudit(database);
  await startNode({ database, fsms: ["test/coordination/machines.ts"], config: { leaseTtlMs: 60_000 } });
  const expected: Record<string, RegExp> = {
    "no outcome": /NOT_AN_OUTCOME.*undefined/,
    "a text": /NOT_AN_OUTCOME/,
    "unknown step": /UNKNOWN_STEP.*nowhere/,
    "wrong state": /INVALID_STATE.*state\.how/,
    "no child": /INVALID_CHILD.*children\[0\]/,
    "unknown child": /UNKNOWN_FSM.*children\[0\].*nobody/,
    "no names": /INVALID_AWAIT.*names/,
    "no time": /INVALID_SCHEDULE.*timeoutMs/,
    "delay of NaN": /INVALID_SCHEDULE.*delayMs.*NaN/,
    "a BigInt": /UNSTORABLE.*result/,
  };
  for (const [how, error] of Object.entries(expected)) {
    const { id } = await client.insert(misfit, { state: { how } });
    expect(await client.waitFor(id, { timeoutMs: 10_000 })).toEqual({
      status: "failed",
      error: expect.stringMatching(error),
    });
    expect(await readAudit(database, id)).toHaveLength(1);
    expect(await client.list({ parentId: id })).toEqual({ instances: [], next: null });
  }
}, 60_000);
