import { expect, test } from "@jest/globals";
import { z } from "zod";
import { StepCrashedError, StepTimeoutError, UsageError } from "../errors.js";
import { decide } from "./decide.js";
import type { FsmDefinition } from "./definition.js";
import { defaultBackoff, defineJob, JOB_STEP } from "./job.js";
import { OutcomeMaker } from "./outcome.js";
import { DefinitionRegistry } from "./registry.js";

const limits = { maxPayloadBytes: 10_000, rateBursts: null };

/** One call of a job's step, or of its handle, as the executor makes it. */
async function call(job: FsmDefinition, what: { args?: unknown; attempt?: number; error?: unknown }) {
  const { runtime } = job;
  const maker = new OutcomeMaker();
  const ctx = { id: 1, attempt: what.attempt ?? 0, state: what.args ?? {}, ...maker.methods };
  const returned =
    "error" in what
      ? await runtime.handle?.(what.error as Error, ctx)
      : await runtime.steps.get(JOB_STEP)?.run(ctx);
  return decide(maker.draftOfReturned(returned, JOB_STEP), runtime, new DefinitionRegistry(), limits);
}

/** What becomes of one try: the step, and `handle` where it throws. */
async function attempt(job: FsmDefinition, number: number, args: unknown = {}) {
  try {
    return await call(job, { args, attempt: number });
  } catch (error) {
    return await call(job, { args, attempt: number, error });
  }
}

const failing = defineJob({
  name: "failing",
  maxAttempts: 3,
  perform: (): null => {
    throw new Error("always");
  },
});

test("JOB-01, JOB-02: what perform returns is the result, and nothing is null", async () => {
  const result = defineJob({
    name: "result",
    args: z.object({ n: z.number() }),
    perform: (args, ctx) => ({ value: args.n * 2, attempt: ctx.attempt }),
  });
  expect(await call(result, { args: { n: 21 } })).toEqual({
    kind: "done",
    result: '{"value":42,"attempt":0}',
  });
  const ok = defineJob({ name: "ok", perform: async () => {} });
  expect(await call(ok, {})).toEqual({ kind: "done", result: "null" });
});

test("JOB-04: a throw is retried until maxAttempts, and the last one fails the job", async () => {
  expect(await attempt(failing, 0)).toEqual({ kind: "retry", state: "{}", due: { delayMs: 1_000 } });
  expect(await attempt(failing, 1)).toMatchObject({ kind: "retry" });
  expect(await attempt(failing, 2)).toEqual({ kind: "stop", reason: "always" });
});

test("JOB-05: cancel fails the job at once, also where perform catches what it throws", async () => {
  const cancels = defineJob({ name: "cancels", perform: (_args, ctx) => ctx.cancel("nope") });
  expect(await attempt(cancels, 0)).toEqual({ kind: "stop", reason: "nope" });
  const catches = defineJob({
    name: "catches",
    perform: async (_args, { cancel }) => {
      try {
        cancel("nope");
      } catch {
        return 1;
      }
    },
  });
  expect(await attempt(catches, 0)).toEqual({ kind: "stop", reason: "nope" });
});

test("JOB-07, JOB-08: twenty tries, waiting 1, 2, 4, ... seconds, at most five minutes", async () => {
  expect([0, 1, 3, 20].map(defaultBackoff)).toEqual([1_000, 2_000, 8_000, 300_000]);
  expect(defaultBackoff(5_000)).toBe(300_000);
  const many = defineJob({ name: "many", backoff: () => 0, perform: () => Promise.reject(new Error("x")) });
  expect(await attempt(many, 18)).toEqual({ kind: "retry", state: "{}", due: null });
  expect(await attempt(many, 19)).toEqual({ kind: "stop", reason: "x" });
});

test("a backoff sees the attempt and the error", async () => {
  const seen: unknown[] = [];
  const job = defineJob({
    name: "x",
    backoff: (tries, error) => {
      seen.push(tries, error.message);
      return 5;
    },
    perform: () => Promise.reject(new Error("boom")),
  });
  expect(await attempt(job, 4)).toMatchObject({ due: { delayMs: 5 } });
  expect(seen).toEqual([4, "boom"]);
});

test("a result that cannot be stored fails the job at once: another try would not change it", async () => {
  const job = defineJob({ name: "bad", perform: () => ({ big: 1n }) });
  expect(await attempt(job, 0)).toEqual({
    kind: "stop",
    reason: "result.big cannot be stored as JSON: it is the BigInt 1n; use a string",
  });
});

test("an error of ours that perform itself threw is retried like any other", async () => {
  const job = defineJob({
    name: "x",
    perform: () => {
      throw new UsageError("INVALID_STATE", "of another insert");
    },
  });
  expect(await attempt(job, 0)).toMatchObject({ kind: "retry" });
});

test("a timeout is retried, a visit that must not run again is not", async () => {
  expect(await call(failing, { error: new StepTimeoutError(JOB_STEP, 5) })).toMatchObject({ kind: "retry" });
  expect(await call(failing, { error: new StepCrashedError(JOB_STEP, 10) })).toMatchObject({ kind: "stop" });
});

test("JOB-10: a job is a machine of one step whose state are its arguments", () => {
  const args = z.object({ n: z.number().default(3) });
  const job = defineJob({
    name: "x",
    queue: "q",
    version: 2,
    args,
    timeoutMs: 5,
    rerunAfterCrash: false,
    perform: () => 1,
  });
  expect(job.runtime).toMatchObject({
    name: "x",
    queue: "q",
    version: 2,
    initialStep: JOB_STEP,
    stateSchema: args,
  });
  expect(job.runtime.steps.get(JOB_STEP)).toMatchObject({ timeoutMs: 5, rerunAfterCrash: false });
});

test.each([
  [{ name: "x" }, "perform"],
  [{ name: "x", perform: 1 }, "perform"],
  [{ name: "x", perform: () => 1, steps: {} }, "steps"],
  [{ name: "x", perform: () => 1, maxAttempts: 0 }, "maxAttempts"],
  [{ name: "x", perform: () => 1, maxAttempts: 1.5 }, "maxAttempts"],
  [{ name: "x", perform: () => 1, backoff: 5 }, "backoff"],
  [{ name: "", perform: () => 1 }, "name"],
  [{ name: "x", perform: () => 1, args: {} }, "args"],
])("JOB-11: %p is refused", (options, path) => {
  expect(() => defineJob(options as never)).toThrow(expect.objectContaining({ path }));
});
