import { types } from "node:util";
import { describe, expect, test } from "@jest/globals";
import bunyan from "bunyan";
import { z } from "zod";
import type { FsmDefinition } from "#core/definition/definition.js";
import { defineFsm } from "#core/definition/fsm.js";
import { defineJob } from "#core/definition/job.js";
import { DefinitionRegistry } from "#core/definition/registry.js";
import type { StepContext } from "#core/definition/stepContext.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import { runRow, type StepEnvironment, StepRun } from "./step.js";

const state = z.object({ n: z.number() });
type Ctx = StepContext<{ n: number }, "start" | "other">;
type Run = (ctx: Ctx) => unknown;

/** A machine with two steps; what the first does is the test's. Untyped, as a caller from JavaScript is. */
function machine(
  start: Run,
  more: { handle?: (error: Error, ctx: Ctx) => unknown; onlyOnce?: boolean } = {},
): FsmDefinition {
  const options = {
    name: "machine",
    version: 1,
    state,
    steps: {
      start: more.onlyOnce === true ? { run: start, rerunAfterCrash: false } : start,
      other: (ctx: Ctx) => ctx.done(),
    },
    ...(more.handle === undefined ? {} : { handle: more.handle }),
  };
  return defineFsm(options as unknown as Parameters<typeof defineFsm>[0]) as FsmDefinition;
}

function row(facts: Partial<ClaimedRow> = {}): ClaimedRow {
  return {
    id: 7,
    claim: "node/1",
    seat: 0,
    generation: 1,
    fsm: "machine",
    version: 1,
    step: "start",
    state: '{"n":1}',
    attempt: 2,
    visit: 5,
    crashes: 0,
    reaps: 0,
    queue: "default",
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
    ...facts,
  };
}

function environment(definition: FsmDefinition): StepEnvironment {
  const registry = new DefinitionRegistry();
  registry.add(definition, "machine.ts");
  return {
    registry,
    limits: { maxPayloadBytes: 10_000, rateBursts: {} },
    crashLimit: 3,
    now: () => performance.now(),
    makeLog: () => bunyan.createLogger({ name: "test", streams: [] }),
  };
}

async function decisionOf(
  definition: FsmDefinition,
  facts?: Partial<ClaimedRow>,
): Promise<WireOutcome["decision"]> {
  return (await runRow(row(facts), environment(definition))).decision;
}

describe("outcomes", () => {
  test("a step's outcome carries its row's identity and the awaited signals that it was handed", async () => {
    const definition = machine((ctx) => ctx.next("other", { n: ctx.state.n + 1 }));
    const inbox = JSON.stringify([
      { id: 11, name: "go", payload: 1 },
      { id: 12, name: "else", payload: 2 },
    ]);
    const outcome = await runRow(
      row({ inbox, awaits: ["go"], parentId: 3, parentVisit: 4 }),
      environment(definition),
    );
    expect(outcome).toMatchObject({
      id: 7,
      claim: "node/1",
      step: "start",
      visit: 5,
      attempt: 2,
      parentId: 3,
      parentVisit: 4,
      awaited: [11],
      shown: [11],
      decision: { kind: "next", step: "other", state: '{"n":2}' },
    });
  });

  test("ctx tells everything about its run, and can be taken apart", async () => {
    let seen: unknown;
    const definition = machine((ctx) => {
      const {
        id,
        fsm,
        version,
        step,
        attempt,
        idempotencyKey,
        awaited,
        inbox,
        children,
        wokenBy,
        cancelReason,
        done,
      } = ctx;
      seen = {
        id,
        fsm,
        version,
        step,
        attempt,
        idempotencyKey,
        awaited,
        inbox,
        children,
        wokenBy,
        cancelReason,
      };
      return done();
    });
    const children = JSON.stringify([{ id: 1, fsm: "kid", status: "done", result: 5, error: null }]);
    const inbox = JSON.stringify([{ id: 11, name: "go", payload: { a: 1 } }]);
    await decisionOf(definition, {
      children,
      inbox,
      awaits: ["go"],
      wokenBy: "signal",
      cancelReason: "no more",
    });
    const signal = { id: 11, name: "go", payload: { a: 1 } };
    expect(seen).toEqual({
      id: 7,
      fsm: "machine",
      version: 1,
      step: "start",
      attempt: 2,
      idempotencyKey: "7:start:5",
      awaited: [signal],
      inbox: [signal],
      children: [{ id: 1, fsm: "kid", status: "done", result: 5, error: null }],
      wokenBy: "signal",
      cancelReason: "no more",
    });
  });

  test("R2: what is changed after the outcome was returned changes nothing", async () => {
    const handedOver = { n: 5 };
    const definition = machine(async (ctx) => {
      setTimeout(() => {
        handedOver.n = 6;
      });
      return ctx.next("other", handedOver);
    });
    expect(await decisionOf(definition)).toMatchObject({ state: '{"n":5}' });
  });
});

describe("errors of a step", () => {
  const told = {
    handle: (error: Error, ctx: Ctx) => ctx.stop(`${Reflect.get(error, "code")}: ${error.message}`),
  };

  test.each<[string, Run, RegExp]>([
    ["undefined", () => undefined, /NOT_AN_OUTCOME.*undefined/],
    ["a string", () => "done", /NOT_AN_OUTCOME.*"done"/],
    ["a half built outcome", () => ({ kind: "done" }), /NOT_AN_OUTCOME/],
    ["an outcome that was made and not returned", (ctx) => void ctx.done(), /NOT_AN_OUTCOME.*return/],
    [
      "a second outcome",
      (ctx) => {
        ctx.stop("first");
        return ctx.done();
      },
      /OUTCOME_DROPPED.*2 outcomes/,
    ],
    ["a NUL in the result", (ctx) => ctx.done("\0"), /UNSTORABLE.*NUL/],
    ["a BigInt in the result", (ctx) => ctx.done({ big: 1n }), /UNSTORABLE.*result\.big/],
    [
      "a state of the wrong shape",
      (ctx) => ctx.next("other", { n: "one" } as never),
      /INVALID_STATE.*state\.n/,
    ],
    ["an unknown step", (ctx) => ctx.next("nowhere" as never, { n: 1 }), /UNKNOWN_STEP.*nowhere/],
    [
      "a child that is none",
      (ctx) => ctx.scheduleChildren("other", ["kid" as never], { n: 1 }),
      /INVALID_CHILD/,
    ],
    ["a result that is too large", (ctx) => ctx.done("x".repeat(20_000)), /PAYLOAD_TOO_LARGE/],
  ])("what cannot be committed goes to handle: %s", async (_, run, expected) => {
    for (const start of [run, async (ctx: Ctx) => run(ctx)]) {
      const decision = await decisionOf(machine(start, told));
      expect(decision).toMatchObject({ kind: "stop", reason: expect.stringMatching(expected) });
      // Without a handle the instance stops and says the same.
      const plain = await decisionOf(machine(start));
      expect(plain.kind).toBe("stop");
    }
  });

  test("without a handle the instance stops with the error's message", async () => {
    const definition = machine(() => {
      throw new Error("boom");
    });
    expect(await decisionOf(definition)).toEqual({ kind: "stop", reason: "boom" });
  });

  test("a thrown 42 reaches handle as an Error that says so", async () => {
    const thrower = (): never => {
      throw 42;
    };
    expect(await decisionOf(machine(thrower))).toMatchObject({ reason: expect.stringContaining("42") });
    const handle = (error: Error, ctx: Ctx) =>
      ctx.stop(String(error instanceof Error && Reflect.get(error, "thrown")));
    expect(await decisionOf(machine(thrower, { handle }))).toEqual({ kind: "stop", reason: "42" });
  });

  test("R3: handle sees the attempt and the state that the step was given", async () => {
    const definition = machine(
      (ctx) => {
        ctx.state.n = 99;
        throw new Error("boom");
      },
      { handle: (_, ctx) => ctx.retry(ctx.state, { delayMs: ctx.attempt }) },
    );
    expect(await decisionOf(definition)).toEqual({ kind: "retry", state: '{"n":1}', due: { delayMs: 2 } });
  });

  test("R1: an error of handle stops the instance with both told", async () => {
    const definition = machine(
      () => {
        throw new Error("first");
      },
      {
        handle: () => {
          throw new Error("second \0");
        },
      },
    );
    const decision = await decisionOf(definition);
    expect(decision).toEqual({
      kind: "stop",
      reason: "handle failed: second \uFFFD; it was to handle: first",
    });
  });

  test("R1: what handle decides and cannot be stored stops the instance as well", async () => {
    const definition = machine(
      () => {
        throw new Error("first");
      },
      { handle: (_, ctx) => ctx.done(Number.NaN) },
    );
    expect(await decisionOf(definition)).toMatchObject({
      kind: "stop",
      reason: expect.stringMatching(/NaN.*first/),
    });
  });

  test("a state that the schema does not take any more goes to handle, which sees it as it is", async () => {
    const definition = machine((ctx) => ctx.done(), {
      handle: (error, ctx) =>
        ctx.stop(`${Reflect.get(error, "code")} ${Reflect.get(error, "path")} ${JSON.stringify(ctx.state)}`),
    });
    expect(await decisionOf(definition, { state: '{"n":"one"}' })).toEqual({
      kind: "stop",
      reason: 'ERR_GEN_DURABLE_STORED_STATE state.n {"n":"one"}',
    });
  });

  test("a step that the machine has not goes to handle", async () => {
    expect(
      await decisionOf(
        machine((ctx) => ctx.done(), told),
        { step: "gone" },
      ),
    ).toMatchObject({
      reason: expect.stringMatching(/UNKNOWN_STEP.*gone/),
    });
  });

  test("a job is tried again after a throw of no error, and gives its result", async () => {
    const job = defineJob({
      name: "machine",
      perform: (args: { n?: number }) => {
        if (args.n === 1) throw 42;
        return args.n;
      },
    }) as FsmDefinition;
    expect(await decisionOf(job, { step: "perform" })).toMatchObject({ kind: "retry" });
    expect(await decisionOf(job, { step: "perform", state: '{"n":21}' })).toEqual({
      kind: "done",
      result: "21",
    });
  });
});

describe("what is thrown", () => {
  const refuse = (): never => {
    throw new Error("refused");
  };

  test.each([
    ["a proxy that refuses every question", () => new Proxy({}, { getPrototypeOf: refuse, get: refuse })],
    [
      "a revoked proxy",
      () => {
        const { proxy, revoke } = Proxy.revocable({}, {});
        revoke();
        return proxy;
      },
    ],
    [
      "an error whose message cannot be read",
      () => Object.defineProperty(new Error(), "message", { get: refuse }),
    ],
  ])("%s fails the step and nothing else", async (_, thrown) => {
    const throws = machine(() => {
      throw thrown();
    });
    expect(await decisionOf(throws)).toMatchObject({ kind: "stop" });
    const rejects = machine(() => Promise.reject(thrown()), {
      handle: (error, ctx) => ctx.stop(`handled: ${types.isNativeError(error)}`),
    });
    expect(await decisionOf(rejects)).toEqual({ kind: "stop", reason: "handled: true" });
  });

  test("S4: what breaks after user code has returned is told, not lost in a promise", async () => {
    const broken = new Promise<unknown>((resolve) => {
      const run = new StepRun(row(), environment(machine(async (ctx) => ctx.done())), {
        handling: () => undefined,
        decided: () => {
          throw new Error("the outbox is broken");
        },
        givenUp: () => undefined,
        broken: resolve,
      });
      run.start();
    });
    expect(await broken).toMatchObject({ message: "the outbox is broken" });
  });
});

describe("verdicts", () => {
  const handle = (error: Error, ctx: Ctx) => ctx.stop(`handled: ${error.message}`);
  let ran = 0;
  const definition = (onlyOnce = false): FsmDefinition =>
    machine(
      (ctx) => {
        ran++;
        return ctx.done();
      },
      { handle, onlyOnce },
    );

  test.each<[string, Partial<ClaimedRow>, boolean, RegExp]>([
    ["timed out", { verdict: { type: "timed_out", timeoutMs: 50 } }, false, /^handled: .*timeout of 50 ms/],
    [
      "crashed, by the coordinator's word",
      { verdict: { type: "crashed", crashes: 2 } },
      false,
      /^handled: .*2 times/,
    ],
    ["crashed as often as may be", { crashes: 3 }, false, /^handled: .*3 times/],
    ["crashed once where it must not run again", { crashes: 1 }, true, /^handled: .*1 time$/],
    ["crashed again in handle", { crashes: 4 }, false, /^step .*3 times; its handle was lost/],
  ])("the step does not run: %s", async (_, facts, onlyOnce, expected) => {
    ran = 0;
    expect(await decisionOf(definition(onlyOnce), facts)).toMatchObject({
      kind: "stop",
      reason: expect.stringMatching(expected),
    });
    expect(ran).toBe(0);
  });

  test("a visit with fewer crashes runs", async () => {
    expect(await decisionOf(definition(), { crashes: 2 })).toMatchObject({ kind: "done" });
  });
});

describe("asked to end", () => {
  const waiting = (more = {}): FsmDefinition =>
    machine(
      (ctx) =>
        new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason))),
      {
        handle: (error, ctx) => ctx.stop(`handled: ${Reflect.get(error, "code")}`),
        ...more,
      },
    );

  async function abortedRun(definition: FsmDefinition, reason: "shutdown" | "claim_lost" | "cancelled") {
    const end = new Promise<WireOutcome | "given up">((resolve, reject) => {
      const run = new StepRun(row(), environment(definition), {
        handling: () => undefined,
        decided: (_, outcome) => resolve(outcome),
        givenUp: () => resolve("given up"),
        broken: reject,
      });
      run.start();
      run.abort(reason);
    });
    const outcome = await end;
    return outcome === "given up" ? outcome : outcome.decision;
  }

  test.each(["shutdown", "claim_lost"] as const)(
    "R1: a step that ends because of %s is given up, not failed",
    async (reason) => {
      expect(await abortedRun(waiting(), reason)).toBe("given up");
      // AbortError, as timers and streams throw it.
      const wrapped = machine(
        (ctx) =>
          new Promise((_, reject) => {
            ctx.signal.addEventListener("abort", () =>
              reject(new Error("later", { cause: ctx.signal.reason })),
            );
          }),
      );
      expect(await abortedRun(wrapped, reason)).toBe("given up");
    },
  );

  test("a step that must not run twice goes to handle instead, and a cancelled one always", async () => {
    const handled = { kind: "stop", reason: "handled: ERR_GEN_DURABLE_STEP_ABORTED" };
    expect(await abortedRun(waiting({ onlyOnce: true }), "shutdown")).toEqual(handled);
    expect(await abortedRun(waiting(), "cancelled")).toEqual(handled);
  });

  test("an uncaught exception sends the step to handle once, whatever it settles to later", async () => {
    let settle: (value: unknown) => void = () => undefined;
    const outcomes: WireOutcome[] = [];
    const definition = machine(
      (ctx) =>
        new Promise((resolve) => {
          settle = () => resolve(ctx.done("late"));
        }),
      { handle: (error, ctx) => ctx.stop(error.message) },
    );
    const run = new StepRun(row(), environment(definition), {
      handling: () => undefined,
      decided: (_, outcome) => outcomes.push(outcome),
      givenUp: () => undefined,
      broken: () => undefined,
    });
    run.start();
    expect(run.fail(new Error("stray"))).toBe(true);
    settle(undefined);
    await new Promise((resolve) => setImmediate(resolve));
    expect(run.fail(new Error("again"))).toBe(false);
    expect(outcomes.map(({ decision }) => decision)).toEqual([{ kind: "stop", reason: "stray" }]);
  });
});
