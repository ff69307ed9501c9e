import { expect, test } from "@jest/globals";
import { Pace } from "./pace.js";

test("slow steps are wanted one by one, even when all slots end together", () => {
  const pace = new Pace();
  pace.begin(0);
  for (let atMs = 200; atMs <= 2_000; atMs += 200) {
    pace.ended(1, atMs);
    pace.ended(19, atMs + 6);
    expect(pace.rowsIn(10, atMs + 7)).toBeLessThanOrEqual(1);
  }
});

test("fast steps are wanted by the hundreds, within a few rounds of a cold start", () => {
  const pace = new Pace();
  pace.begin(0);
  let nowMs = 0;
  let prefetch = 0;
  for (let round = 0; round < 8; round++) {
    // Each round the slots and what was held beside them end, at 30 rows a millisecond, after a pick of 2 ms.
    const rows = 10 + prefetch;
    nowMs += 2 + rows / 30;
    pace.ended(rows, nowMs);
    prefetch = pace.rowsIn(10, nowMs);
  }
  expect(prefetch).toBeGreaterThan(100);
});

test("a queue that has gone quiet wants nothing, and begins anew without its idle time", () => {
  const pace = new Pace();
  pace.begin(0);
  for (let atMs = 10; atMs < 1_000; atMs += 10) pace.ended(100, atMs);
  expect(pace.rowsIn(10, 1_000)).toBeGreaterThan(90);
  expect(pace.rowsIn(10, 3_000)).toBe(0);
  pace.begin(60_000);
  pace.ended(100, 60_010);
  expect(pace.rowsIn(10, 60_010)).toBe(100);
});
