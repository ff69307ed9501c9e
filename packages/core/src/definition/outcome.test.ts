import { expect, test } from "@jest/globals";
import { draftOf, OutcomeMaker } from "./outcome.js";

test("an outcome is what its method was given", () => {
  const { next, retry, awaitSignal, scheduleChildren, done, stop } = new OutcomeMaker().methods;
  expect(draftOf(next("b", { n: 1 }, { delayMs: 5 }))).toEqual({
    kind: "next",
    step: "b",
    state: { n: 1 },
    options: { delayMs: 5 },
  });
  expect(draftOf(retry(1))).toEqual({ kind: "retry", state: 1, options: undefined });
  expect(draftOf(awaitSignal("go", "b", 1))).toMatchObject({ kind: "await", names: "go", step: "b" });
  expect(draftOf(scheduleChildren("b", [], 1))).toMatchObject({ kind: "children", children: [] });
  expect(draftOf(done())).toEqual({ kind: "done", result: undefined });
  expect(draftOf(stop("x"))).toEqual({ kind: "stop", reason: "x" });
});

test("O1: the one outcome that was made and returned counts", () => {
  const maker = new OutcomeMaker();
  const outcome = maker.methods.done(1);
  expect(maker.draftOfReturned(outcome, "a")).toEqual({ kind: "done", result: 1 });
});

test("O1: an outcome that was made and not returned is a forgotten return", () => {
  const maker = new OutcomeMaker();
  maker.methods.next("b", {});
  expect(() => maker.draftOfReturned(maker.methods.done(), "a")).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_OUTCOME_DROPPED" }),
  );
  const first = new OutcomeMaker();
  const returned = first.methods.done();
  first.methods.stop("x");
  expect(() => first.draftOfReturned(returned, "a")).toThrow('is a "return" missing?');
  const none = new OutcomeMaker();
  none.methods.next("b", {});
  expect(() => none.draftOfReturned(undefined, "a")).toThrow(
    'step "a" returned undefined: it made ctx.next(...) without returning it; is a "return" missing?',
  );
});

test("O1: an outcome of another run is refused", () => {
  const other = new OutcomeMaker().methods.done();
  expect(() => new OutcomeMaker().draftOfReturned(other, "a")).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_FOREIGN_OUTCOME" }),
  );
  const maker = new OutcomeMaker();
  maker.methods.done();
  expect(() => maker.draftOfReturned(other, "a")).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_OUTCOME_DROPPED" }),
  );
});

test.each([[undefined], ["done"], [null], [{ kind: "done" }], [[]], [5], [() => 1]])(
  "OUT-08: %p is no outcome",
  (returned) => {
    expect(() => new OutcomeMaker().draftOfReturned(returned, "a")).toThrow(
      expect.objectContaining({ code: "ERR_GEN_DURABLE_NOT_AN_OUTCOME" }),
    );
  },
);
