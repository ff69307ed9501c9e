import { expect, test } from "@jest/globals";
import { CLAIM_ROWS_MAX } from "./claim.js";
import {
  type DemandFacts,
  demandOf,
  PREFETCH_ROWS_MAX,
  UNCOMMITTED_BYTES_MAX,
  UNCOMMITTED_ROWS_MAX,
} from "./demand.js";

const facts = (more: Partial<DemandFacts> = {}): DemandFacts => ({
  concurrency: 4,
  freeSlots: 4,
  unstarted: 0,
  returning: 0,
  prefetch: 0,
  minDemand: 1,
  room: 1_000_000,
  uncommitted: 0,
  uncommittedBytes: 0,
  ...more,
});

test("free slots and prefetch, less what waits already", () => {
  expect(demandOf(facts())).toBe(4);
  expect(demandOf(facts({ prefetch: 5 }))).toBe(9);
  expect(demandOf(facts({ freeSlots: 1, prefetch: 5, unstarted: 2 }))).toBe(4);
  expect(demandOf(facts({ freeSlots: 0 }))).toBe(0);
  expect(demandOf(facts({ freeSlots: 0, prefetch: 3, unstarted: 7 }))).toBe(0);
});

test("PICK-08: below minDemand nothing is wanted; one that could never be met is clamped", () => {
  expect(demandOf(facts({ minDemand: 3, freeSlots: 2 }))).toBe(0);
  expect(demandOf(facts({ minDemand: 3, freeSlots: 3 }))).toBe(3);
  expect(demandOf(facts({ minDemand: 100, freeSlots: 3 }))).toBe(0);
  expect(demandOf(facts({ minDemand: 100, freeSlots: 4 }))).toBe(4);
});

test("outcomes that wait for their commit hold new claims back, in rows and in bytes", () => {
  expect(demandOf(facts({ uncommitted: UNCOMMITTED_ROWS_MAX - 2 }))).toBe(2);
  expect(demandOf(facts({ uncommitted: UNCOMMITTED_ROWS_MAX }))).toBe(0);
  expect(demandOf(facts({ uncommitted: 2 * UNCOMMITTED_ROWS_MAX }))).toBe(0);
  expect(demandOf(facts({ uncommittedBytes: UNCOMMITTED_BYTES_MAX }))).toBe(0);
});

test("never more than the node has seats for, nor than one claim takes", () => {
  expect(demandOf(facts({ room: 3 }))).toBe(3);
  expect(demandOf(facts({ room: 0 }))).toBe(0);
  expect(demandOf(facts({ freeSlots: 5_000, concurrency: 5_000, prefetch: PREFETCH_ROWS_MAX }))).toBe(
    CLAIM_ROWS_MAX,
  );
});
