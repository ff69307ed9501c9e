import { expect, test } from "@jest/globals";
import { DURATION_MS_MAX } from "./name.js";
import { deadlineOf, dueOf } from "./schedule.js";

test("a delay and an instant are kept apart, and neither is at once", () => {
  expect(dueOf({}, "options")).toBeNull();
  expect(dueOf({ delayMs: 0 }, "options")).toBeNull();
  expect(dueOf({ delayMs: 0.5 }, "options")).toEqual({ delayMs: 0.5 });
  expect(dueOf({ at: new Date(5_000) }, "options")).toEqual({ atMs: 5_000 });
  expect(dueOf({ at: 5_000 }, "options")).toEqual({ atMs: 5_000 });
  expect(dueOf({ delayMs: DURATION_MS_MAX }, "options")).toEqual({ delayMs: DURATION_MS_MAX });
});

test.each([
  [{ delayMs: -1 }, "options.delayMs"],
  [{ delayMs: Number.NaN }, "options.delayMs"],
  [{ delayMs: Number.POSITIVE_INFINITY }, "options.delayMs"],
  [{ delayMs: DURATION_MS_MAX + 1_000 }, "options.delayMs"],
  [{ delayMs: "5" }, "options.delayMs"],
  [{ delayMs: null }, "options.delayMs"],
  [{ at: new Date(Number.NaN) }, "options.at"],
  [{ at: "2030-01-01" }, "options.at"],
  [{ at: Number.NaN }, "options.at"],
  [{ at: -1 }, "options.at"],
  [{ at: new Date("9999-01-01") }, "options.at"],
  [{ at: 0, delayMs: 0 }, "options.delayMs"],
])("%p is no schedule", (schedule, path) => {
  expect(() => dueOf(schedule, "options")).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_INVALID_SCHEDULE", path }),
  );
});

test("a deadline is a timeout or an instant, and none is for ever", () => {
  expect(deadlineOf({}, "options")).toBeNull();
  expect(deadlineOf({ timeoutMs: 300 }, "options")).toEqual({ delayMs: 300 });
  expect(deadlineOf({ until: new Date(5) }, "options")).toEqual({ atMs: 5 });
});

test.each([
  [{ timeoutMs: 0 }, "options.timeoutMs"],
  [{ timeoutMs: -5 }, "options.timeoutMs"],
  [{ timeoutMs: "300" }, "options.timeoutMs"],
  [{ timeoutMs: Number.NaN }, "options.timeoutMs"],
  [{ timeoutMs: DURATION_MS_MAX * 2 }, "options.timeoutMs"],
  [{ until: "tomorrow" }, "options.until"],
  [{ until: 1, timeoutMs: 1 }, "options.timeoutMs"],
])("OUT-11: %p is no deadline", (options, path) => {
  expect(() => deadlineOf(options, "options")).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_INVALID_SCHEDULE", path }),
  );
});
