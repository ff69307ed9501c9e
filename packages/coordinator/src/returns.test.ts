import { expect, test } from "@jest/globals";
import { Returns } from "./returns.js";

const pauses = (returns: Returns, count: number): number[] =>
  Array.from({ length: count }, () => returns.nextPauseMs());

test("RT1: the first try comes at once, and the pauses grow to two seconds", () => {
  const returns = new Returns();
  returns.lost(0);
  expect(pauses(returns, 9)).toEqual([0, 50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
});

test("RT2: a return that does not last is paid with a longer pause; one that lasts is forgotten", () => {
  const returns = new Returns();
  let nowMs = 0;
  for (const pauseMs of [0, 50, 100, 200]) {
    returns.lost(nowMs);
    expect(returns.nextPauseMs()).toBe(pauseMs);
    returns.back(nowMs);
    nowMs += 9_000;
  }
  returns.back(nowMs);
  returns.lost(nowMs + 10_000);
  expect(returns.nextPauseMs()).toBe(0);
});
