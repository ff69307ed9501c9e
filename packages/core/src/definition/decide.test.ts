import { expect, test } from "@jest/globals";
import { z } from "zod";
import type { Decision } from "../protocol/outcome.js";
import { encodeConcurrencyKey, encodeRate, type Limits } from "./admission.js";
import { childOf } from "./child.js";
import { AWAIT_NAMES_MAX, CHILDREN_MAX, decide } from "./decide.js";
import { defineFsm } from "./fsm.js";
import { draftOf, OutcomeMaker, type OutcomeMethods } from "./outcome.js";
import { DefinitionRegistry } from "./registry.js";

const parent = defineFsm({
  name: "parent",
  state: z.object({ n: z.number(), text: z.string().optional() }),
  steps: { start: (ctx) => ctx.done(), end: (ctx) => ctx.done() },
});
const kid = defineFsm({
  name: "kid",
  version: 2,
  queue: "kids",
  state: z.object({ name: z.string(), n: z.number().default(7) }),
  steps: { work: (ctx) => ctx.done() },
});
const strict = defineFsm({
  name: "strict",
  result: z.object({ total: z.number() }),
  signals: { go: z.string(), halt: z.number() },
  steps: { start: (ctx) => ctx.done({ total: 1 }) },
});
const registry = new DefinitionRegistry();
for (const fsm of [parent, kid, strict]) registry.add(fsm, "test.ts");
const limits: Limits = { maxPayloadBytes: 1_000, rateBursts: { stripe: 10 } };

function decided(
  make: (ctx: OutcomeMethods) => unknown,
  fsm: { runtime: typeof parent.runtime } = parent,
): Decision {
  const draft = draftOf(make(new OutcomeMaker().methods));
  if (draft === undefined) throw new Error("no outcome");
  return decide(draft, fsm.runtime, registry, limits);
}

const state = { n: 1 };

test("every outcome is encoded whole", () => {
  expect(decided((ctx) => ctx.next("end", state, { delayMs: 5 }))).toEqual({
    kind: "next",
    step: "end",
    state: '{"n":1}',
    due: { delayMs: 5 },
    rateLimit: null,
    weight: 1,
    key: undefined,
    inline: false,
  });
  expect(decided((ctx) => ctx.next("start", state, { concurrencyKey: null, inline: false }))).toMatchObject({
    key: null,
    inline: false,
  });
  expect(decided((ctx) => ctx.next("start", state, { inline: true }))).toMatchObject({ inline: true });
  // A row that sleeps holds no claim.
  expect(decided((ctx) => ctx.next("start", state, { inline: true, delayMs: 5 }))).toMatchObject({
    inline: false,
  });
  expect(decided((ctx) => ctx.retry(state, { at: new Date(9) }))).toEqual({
    kind: "retry",
    state: '{"n":1}',
    due: { atMs: 9 },
  });
  expect(decided((ctx) => ctx.awaitSignal(["a", "b", "a"], "end", state, { timeoutMs: 9 }))).toEqual({
    kind: "await",
    names: ["a", "b"],
    step: "end",
    state: '{"n":1}',
    deadline: { delayMs: 9 },
  });
  expect(decided((ctx) => ctx.awaitSignal("go", "end", state))).toMatchObject({
    names: ["go"],
    deadline: null,
  });
  expect(decided((ctx) => ctx.done())).toEqual({ kind: "done", result: "null" });
  expect(decided((ctx) => ctx.done([1]))).toEqual({ kind: "done", result: "[1]" });
  expect(decided((ctx) => ctx.stop("boom"))).toEqual({ kind: "stop", reason: "boom" });
});

test("a child is encoded by its own schema, with the defaults of its definition", () => {
  const decision = decided((ctx) =>
    ctx.scheduleChildren(
      "end",
      [
        kid.child({ state: { name: "a" } }),
        childOf("kid", {
          state: { name: "b", n: 1 },
          queue: "q",
          priority: -3,
          correlationKey: "k",
          correlationScope: ["runnable", "done"],
          delayMs: 4,
        }),
      ],
      state,
    ),
  );
  expect(decision).toEqual({
    kind: "children",
    step: "end",
    state: '{"n":1}',
    children: [
      {
        fsm: "kid",
        version: 2,
        step: "work",
        state: '{"name":"a","n":7}',
        queue: "kids",
        priority: 0,
        due: null,
        concurrencyKey: null,
        rateLimit: null,
        weight: 1,
        correlationKey: null,
        correlationScope: ["runnable", "executing", "awaiting_signal", "awaiting_children"],
      },
      expect.objectContaining({
        state: '{"name":"b","n":1}',
        queue: "q",
        priority: -3,
        correlationKey: "k",
        correlationScope: ["runnable", "done"],
        due: { delayMs: 4 },
      }),
    ],
  });
  expect(decided((ctx) => ctx.scheduleChildren("end", [], state))).toMatchObject({ children: [] });
});

test("a stop never fails for what its reason is", () => {
  expect(decided((ctx) => ctx.stop("a\0b"))).toEqual({ kind: "stop", reason: "a\uFFFDb" });
  expect(decided((ctx) => ctx.stop(new Error("x", { cause: "y" })))).toEqual({
    kind: "stop",
    reason: "x; caused by: y",
  });
  expect(decided((ctx) => ctx.stop(undefined))).toEqual({ kind: "stop", reason: "undefined" });
});

type Make = (ctx: OutcomeMethods) => unknown;
const many = Array.from({ length: CHILDREN_MAX + 1 }, () => kid.child({ state: { name: "a" } }));
const refusals: [string, Make, string, string][] = [
  ["an unknown step", (ctx) => ctx.next("edn", state), "UNKNOWN_STEP", "step"],
  ["a step that is no text", (ctx) => ctx.next(undefined, state), "UNKNOWN_STEP", "step"],
  ["a step that every object has", (ctx) => ctx.next("toString", state), "UNKNOWN_STEP", "step"],
  ["an await on an unknown step", (ctx) => ctx.awaitSignal("a", "edn", state), "UNKNOWN_STEP", "step"],
  ["a join on an unknown step", (ctx) => ctx.scheduleChildren("edn", [], state), "UNKNOWN_STEP", "step"],
  ["a state of the wrong shape", (ctx) => ctx.next("end", { n: "1" }), "INVALID_STATE", "state.n"],
  ["no state", (ctx) => ctx.next("end", undefined), "INVALID_STATE", "state"],
  ["a state with what the schema drops", (ctx) => ctx.retry({ n: 1, x: 1 }), "UNSTABLE_SCHEMA", "state.x"],
  ["a state with a NUL", (ctx) => ctx.retry({ n: 1, text: "\0" }), "UNSTORABLE", "state.text"],
  [
    "a state that is too large",
    (ctx) => ctx.retry({ n: 1, text: "x".repeat(1_000) }),
    "PAYLOAD_TOO_LARGE",
    "state",
  ],
  ["a negative delay", (ctx) => ctx.retry(state, { delayMs: -1 }), "INVALID_SCHEDULE", "options.delayMs"],
  [
    "a delay of NaN",
    (ctx) => ctx.next("end", state, { delayMs: Number.NaN }),
    "INVALID_SCHEDULE",
    "options.delayMs",
  ],
  ["a misspelt option", (ctx) => ctx.retry(state, { delay: 1 }), "INVALID_OPTION", "options.delay"],
  ["options that are a number", (ctx) => ctx.retry(state, 1_000), "INVALID_OPTION", "options"],
  [
    "an inline that is no boolean",
    (ctx) => ctx.next("end", state, { inline: 1 }),
    "INVALID_OPTION",
    "options.inline",
  ],
  ["a weight of 0", (ctx) => ctx.next("end", state, { weight: 0 }), "INVALID_WEIGHT", "options.weight"],
  [
    "a weight of NaN",
    (ctx) => ctx.next("end", state, { weight: Number.NaN }),
    "INVALID_WEIGHT",
    "options.weight",
  ],
  [
    "a weight that never fits",
    (ctx) => ctx.next("end", state, { rateLimit: ["stripe", 1], weight: 11 }),
    "INVALID_WEIGHT",
    "options.weight",
  ],
  [
    "an unknown rate limit",
    (ctx) => ctx.next("end", state, { rateLimit: "strip" }),
    "UNKNOWN_RATE_LIMIT",
    "options.rateLimit",
  ],
  [
    "a key that is none",
    (ctx) => ctx.next("end", state, { concurrencyKey: 5 }),
    "INVALID_KEY",
    "options.concurrencyKey",
  ],
  ["OUT-10: an await on no names", (ctx) => ctx.awaitSignal([], "end", state), "INVALID_AWAIT", "names"],
  [
    "too many names",
    (ctx) =>
      ctx.awaitSignal(
        Array.from({ length: AWAIT_NAMES_MAX + 1 }, (_, i) => `s${i}`),
        "end",
        state,
      ),
    "INVALID_AWAIT",
    "names",
  ],
  ["an empty signal name", (ctx) => ctx.awaitSignal("", "end", state), "INVALID_NAME", "names"],
  [
    "a signal name that is none",
    (ctx) => ctx.awaitSignal(["a", 5], "end", state),
    "INVALID_NAME",
    "names[1]",
  ],
  [
    "OUT-11: an await timeout of 0",
    (ctx) => ctx.awaitSignal("a", "end", state, { timeoutMs: 0 }),
    "INVALID_SCHEDULE",
    "options.timeoutMs",
  ],
  [
    "children that are no array",
    (ctx) => ctx.scheduleChildren("end", {}, state),
    "INVALID_CHILD",
    "children",
  ],
  [
    "ERR-05: a child that is none",
    (ctx) => ctx.scheduleChildren("end", [kid.child({ state: { name: "a" } }), { fsm: "kid" }], state),
    "INVALID_CHILD",
    "children[1]",
  ],
  [
    "a child of an unknown machine",
    (ctx) => ctx.scheduleChildren("end", [childOf("kidd")], state),
    "UNKNOWN_FSM",
    "children[0]",
  ],
  [
    "a child of an unknown version",
    (ctx) => ctx.scheduleChildren("end", [childOf("kid", { version: 9 })], state),
    "UNKNOWN_FSM",
    "children[0]",
  ],
  [
    "a child with a state of the wrong shape",
    (ctx) => ctx.scheduleChildren("end", [childOf("kid", { state: { name: 1 } })], state),
    "INVALID_STATE",
    "children[0].state.name",
  ],
  [
    "a child without its state",
    (ctx) => ctx.scheduleChildren("end", [childOf("kid")], state),
    "INVALID_STATE",
    "children[0].state.name",
  ],
  [
    "a child with an unknown option",
    (ctx) => ctx.scheduleChildren("end", [kid.child({ state: { name: "a" }, prio: 1 } as never)], state),
    "INVALID_OPTION",
    "children[0].prio",
  ],
  [
    "a child with a priority of 1.5",
    (ctx) => ctx.scheduleChildren("end", [kid.child({ state: { name: "a" }, priority: 1.5 })], state),
    "INVALID_OPTION",
    "children[0].priority",
  ],
  [
    "a child with an unknown status in its scope",
    (ctx) =>
      ctx.scheduleChildren(
        "end",
        [kid.child({ state: { name: "a" }, correlationScope: ["gone" as "done"] })],
        state,
      ),
    "INVALID_OPTION",
    "children[0].correlationScope[0]",
  ],
  [
    "a child with an empty queue",
    (ctx) => ctx.scheduleChildren("end", [kid.child({ state: { name: "a" }, queue: "" })], state),
    "INVALID_NAME",
    "children[0].queue",
  ],
  [
    "a child with a key of 513 bytes",
    (ctx) =>
      ctx.scheduleChildren(
        "end",
        [kid.child({ state: { name: "a" }, correlationKey: "k".repeat(513) })],
        state,
      ),
    "INVALID_NAME",
    "children[0].correlationKey",
  ],
  [
    "more children than one outcome may have",
    (ctx) => ctx.scheduleChildren("end", many, state),
    "TOO_MANY_CHILDREN",
    "children",
  ],
  ["ERR-04: a result that JSON cannot hold", (ctx) => ctx.done({ big: 1n }), "UNSTORABLE", "result.big"],
  ["a result that is too large", (ctx) => ctx.done("x".repeat(1_000)), "PAYLOAD_TOO_LARGE", "result"],
];

test.each(refusals)("%s is refused", (_what, make, code, path) => {
  expect(() => decided(make)).toThrow(expect.objectContaining({ code: `ERR_GEN_DURABLE_${code}`, path }));
});

test("declared results and signals are held to their schemas", () => {
  const refused = (code: string, path: string) =>
    expect.objectContaining({ code: `ERR_GEN_DURABLE_${code}`, path });
  expect(decided((ctx) => ctx.done({ total: 3 }), strict)).toEqual({ kind: "done", result: '{"total":3}' });
  expect(() => decided((ctx) => ctx.done(), strict)).toThrow(refused("INVALID_RESULT", "result"));
  expect(() => decided((ctx) => ctx.done({ total: "3" }), strict)).toThrow(
    refused("INVALID_RESULT", "result.total"),
  );
  expect(() => decided((ctx) => ctx.awaitSignal(["go", "hald"], "start", {}), strict)).toThrow(
    refused("UNKNOWN_SIGNAL", "names[1]"),
  );
  expect(() => decided((ctx) => ctx.awaitSignal("hald", "start", {}), strict)).toThrow(
    'did you mean "halt"?',
  );
});

test("a machine without a state schema takes any JSON object", () => {
  expect(decided((ctx) => ctx.retry({ any: ["thing"] }), strict)).toMatchObject({
    state: '{"any":["thing"]}',
  });
  for (const wrong of [undefined, null, 5, "x", []]) {
    expect(() => decided((ctx) => ctx.retry(wrong), strict)).toThrow(
      expect.objectContaining({ code: "ERR_GEN_DURABLE_INVALID_STATE" }),
    );
  }
  expect(() => decided((ctx) => ctx.retry(new Date()), strict)).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_UNSTORABLE" }),
  );
});

test("a client knows no limits: any name of a rate limit passes its check", () => {
  const unknown = { maxPayloadBytes: 1, rateBursts: null };
  expect(encodeRate({}, unknown, "")).toEqual({ rateLimit: null, weight: 1 });
  expect(encodeRate({ rateLimit: ["any", 1], weight: 2 }, unknown, "")).toEqual({
    rateLimit: "any:1",
    weight: 2,
  });
  expect(() => encodeConcurrencyKey(["", 1], "concurrencyKey")).toThrow("concurrencyKey[0]");
});
