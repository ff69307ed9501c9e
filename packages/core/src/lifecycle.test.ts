import { expect, test } from "@jest/globals";
import { LIVE_STATUSES, STATUSES } from "./instance.js";
import { INSTANCE_EVENTS, isLegalMove, LIFECYCLE } from "./lifecycle.js";

const OUTCOMES = ["next", "nextInline", "retry", "await", "scheduleChildren", "done", "stop"] as const;

test("L1: the table answers every event in every status", () => {
  for (const status of STATUSES)
    expect(Object.keys(LIFECYCLE[status]).sort()).toEqual([...INSTANCE_EVENTS].sort());
});

test("L2: nothing leads out of done, and only a client's retry out of failed", () => {
  expect(Object.values(LIFECYCLE.done).every((to) => to === "refused")).toBe(true);
  const { retryByClient, ...rest } = LIFECYCLE.failed;
  expect(retryByClient).toBe("runnable");
  expect(Object.values(rest).every((to) => to === "refused")).toBe(true);
});

test("outcomes are taken from an executing instance and from no other", () => {
  for (const status of STATUSES)
    for (const outcome of OUTCOMES)
      expect(LIFECYCLE[status][outcome] !== "refused").toBe(status === "executing");
});

test("only a runnable instance is claimed", () => {
  expect(STATUSES.filter((status) => LIFECYCLE[status].claim !== "refused")).toEqual(["runnable"]);
});

test("every live status can be cancelled by force, and can end", () => {
  for (const status of LIVE_STATUSES) expect(LIFECYCLE[status].cancelForced).toBe("failed");
});

test("a state that goes backwards is not a legal move", () => {
  expect(isLegalMove("executing", "runnable")).toBe(true);
  expect(isLegalMove("done", "executing")).toBe(false);
  expect(isLegalMove("done", "runnable")).toBe(false);
  expect(isLegalMove("failed", "executing")).toBe(false);
  expect(isLegalMove("awaiting_signal", "executing")).toBe(false);
  expect(isLegalMove("runnable", "done")).toBe(false);
});
