import { expect, test } from "@jest/globals";
import { z } from "zod";
import { definitionsOf, isDefinition } from "./definition.js";
import { defineFsm, runtimeOf } from "./fsm.js";

const state = z.object({ n: z.number().default(0) });
const step = () => undefined;

test("a definition carries its promises, with defaults", () => {
  const fsm = defineFsm({
    name: "counter",
    state,
    stepTimeoutMs: 500,
    steps: {
      start: (ctx) => ctx.next("end", ctx.state),
      end: { run: (ctx) => ctx.done(), timeoutMs: 100, rerunAfterCrash: false },
    },
  });
  expect(fsm).toMatchObject({ name: "counter", version: 1, queue: "default" });
  expect(fsm.runtime).toMatchObject({
    initialStep: "start",
    handle: null,
    resultSchema: null,
    signalSchemas: null,
    onCancel: null,
    inline: false,
  });
  expect([...fsm.runtime.steps.values()].map(({ run: _, ...rest }) => rest)).toEqual([
    { name: "start", timeoutMs: 500, rerunAfterCrash: true },
    { name: "end", timeoutMs: 100, rerunAfterCrash: false },
  ]);
  expect(fsm.runtime.parseState({ n: 3 })).toEqual({ n: 3 });
  expect(() => fsm.runtime.parseState({ n: "x" })).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_INVALID_STATE", path: "state.n" }),
  );
});

test("`initial` and `onCancel` name a step", () => {
  const { runtime } = defineFsm({
    name: "x",
    initial: "b",
    onCancel: "a",
    steps: { a: (ctx) => ctx.done(), b: (ctx) => ctx.done() },
  });
  expect(runtime).toMatchObject({ initialStep: "b", onCancel: "a" });
});

test.each([
  ["no options", undefined, "name"],
  ["an unknown option", { name: "x", step: {} }, "step"],
  ["no name", { steps: { a: step } }, "name"],
  ["an empty name", { name: "", steps: { a: step } }, "name"],
  ["a name of 513 bytes", { name: "x".repeat(513), steps: { a: step } }, "name"],
  ["a queue that is no text", { name: "x", queue: 5, steps: { a: step } }, "queue"],
  ["a version of 0", { name: "x", version: 0, steps: { a: step } }, "version"],
  ["a version of 1.5", { name: "x", version: 1.5, steps: { a: step } }, "version"],
  ["a version beyond int", { name: "x", version: 2 ** 31, steps: { a: step } }, "version"],
  ["no steps", { name: "x" }, "steps"],
  ["empty steps", { name: "x", steps: {} }, "steps"],
  ["an array of steps", { name: "x", steps: [step] }, "steps"],
  ["a step without a name", { name: "x", steps: { "": step } }, "steps"],
  ["a step's name of 513 bytes", { name: "x", steps: { ["s".repeat(513)]: step } }, "steps"],
  ["a step that is no function", { name: "x", steps: { a: "go" } }, "steps.a"],
  ["a step without run", { name: "x", steps: { a: { timeoutMs: 5 } } }, "steps.a.run"],
  [
    "a step with an unknown option",
    { name: "x", steps: { a: { run: step, timeout: 5 } } },
    "steps.a.timeout",
  ],
  ["a step's timeout of 0", { name: "x", steps: { a: { run: step, timeoutMs: 0 } } }, "steps.a.timeoutMs"],
  [
    "a rerunAfterCrash that is no boolean",
    { name: "x", steps: { a: { run: step, rerunAfterCrash: 0 } } },
    "steps.a.rerunAfterCrash",
  ],
  ["an unknown initial step", { name: "x", initial: "b", steps: { a: step } }, "initial"],
  ["an unknown onCancel step", { name: "x", onCancel: "b", steps: { a: step } }, "onCancel"],
  ["steps named by numbers without `initial`", { name: "x", steps: { "2": step, "1": step } }, "initial"],
  ["a negative step timeout", { name: "x", stepTimeoutMs: -1, steps: { a: step } }, "stepTimeoutMs"],
  ["a handle that is no function", { name: "x", handle: {}, steps: { a: step } }, "handle"],
  ["a state that is no schema", { name: "x", state: { n: "number" }, steps: { a: step } }, "state"],
  ["a result that is no schema", { name: "x", result: String, steps: { a: step } }, "result"],
  ["a signal that is no schema", { name: "x", signals: { go: 1 }, steps: { a: step } }, "signals.go"],
  ["an inline that is no boolean", { name: "x", inline: "yes", steps: { a: step } }, "inline"],
])("JOB-11: %s is refused", (_what, options, path) => {
  expect(() => runtimeOf(options)).toThrow(
    expect.objectContaining({ code: expect.stringMatching(/_INVALID_(DEFINITION|NAME)$/), path }),
  );
});

test("a refusal names the machine and what is near", () => {
  expect(() => runtimeOf({ name: "x", initial: "strat", steps: { start: step } })).toThrow(
    'FSM "x": initial: "strat" is no step; did you mean "start"? (steps: start)',
  );
});

test("a module's definitions are found, each once, whatever else it exports", () => {
  const fsm = defineFsm({ name: "x", steps: { a: (ctx) => ctx.done() } });
  const exports = {
    default: fsm,
    again: fsm,
    helper: () => 1,
    text: "x",
    nothing: null,
    plain: { name: "x" },
  };
  expect(definitionsOf(exports)).toEqual([fsm]);
  expect(isDefinition(fsm)).toBe(true);
});

test("run-ahead is asked for by the definition", () => {
  expect(runtimeOf({ name: "x", inline: true, steps: { a: step } }).inline).toBe(true);
});
