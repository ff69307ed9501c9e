import { expect, test } from "@jest/globals";
import { BATCH_BYTES_MAX, waitMs } from "./trigger.js";

const limits = { maxBatch: 3, maxDelayMs: 100 };
const batch = { count: 1, bytes: 10, firstAtMs: 1_000, onTheWay: 1 };

test("T2: a batch waits up to maxDelayMs after its first outcome", () => {
  expect(waitMs(batch, limits, 1_000)).toBe(100);
  expect(waitMs(batch, limits, 1_060)).toBe(40);
  expect(waitMs(batch, limits, 1_200)).toBe(0);
});

test("T2: it does not wait at maxBatch outcomes, nor at its limit of bytes", () => {
  expect(waitMs({ ...batch, count: 3 }, limits, 1_000)).toBe(0);
  expect(waitMs({ ...batch, bytes: BATCH_BYTES_MAX }, limits, 1_000)).toBe(0);
});

test("T3: it does not wait when nothing is on its way", () => {
  expect(waitMs({ ...batch, onTheWay: 0 }, limits, 1_000)).toBe(0);
});

test("nothing is flushed when there is nothing", () => {
  expect(waitMs({ ...batch, count: 0, onTheWay: 0 }, limits, 1_000)).toBe(Number.POSITIVE_INFINITY);
});
