import { expect, test } from "@jest/globals";
import { parsePeriod } from "./period.js";

test.each([
  [250, 250],
  ["1 second", 1_000],
  ["90 seconds", 90_000],
  ["1 minute", 60_000],
  ["1.5 hours", 5_400_000],
  ["2 days", 172_800_000],
])("%p is %d ms", (period, ms) => {
  expect(parsePeriod(period)).toBe(ms);
});

test.each([
  [0],
  [-1],
  [Number.NaN],
  [Number.POSITIVE_INFINITY],
  [""],
  ["minute"],
  ["0 days"],
  ["1 month"],
  ["1"],
  [null],
])("%p is no period", (period) => {
  expect(parsePeriod(period)).toBeUndefined();
});
