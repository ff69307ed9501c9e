import { expect, test } from "@jest/globals";
import { LIVE_STATUSES, type Status } from "../instance.js";
import type { ChildInsert } from "../protocol/outcome.js";
import { CHUNK_BYTES_MAX, CHUNK_ROWS_MAX, chunksOf, matchInserted } from "./insert.js";

function row(correlationKey: string | null, facts: Partial<ChildInsert> = {}): ChildInsert {
  return {
    fsm: "plain",
    version: 1,
    step: "start",
    state: "{}",
    queue: "default",
    priority: 0,
    due: null,
    concurrencyKey: null,
    rateLimit: null,
    weight: 1,
    correlationKey,
    correlationScope: LIVE_STATUSES,
    ...facts,
  };
}

test("a chunk holds at most so many rows, and so many bytes unless one row has more", () => {
  const many = Array.from({ length: CHUNK_ROWS_MAX * 2 + 1 }, () => row(null));
  expect(chunksOf(many, false).map((chunk) => chunk.length)).toEqual([CHUNK_ROWS_MAX, CHUNK_ROWS_MAX, 1]);
  const large = row(null, { state: "x".repeat(CHUNK_BYTES_MAX / 2) });
  const larger = row(null, { state: "x".repeat(CHUNK_BYTES_MAX + 1) });
  expect(chunksOf([large, large, row(null), larger, row(null)], false)).toEqual([[0, 1], [2], [3], [4]]);
  expect(chunksOf([], false)).toEqual([]);
});

test("N3: in one transaction the keys go in order through all chunks, rows without one last", () => {
  const rows = Array.from({ length: CHUNK_ROWS_MAX + 2 }, (_, n) =>
    row(n % 2 === 0 ? null : `k${9_999 - n}`),
  );
  const order = chunksOf(rows, true)
    .flat()
    .map((place) => rows[place]?.correlationKey ?? null);
  const keys = order.filter((key) => key !== null);
  expect(keys).toEqual(keys.toSorted());
  expect(order.indexOf(null)).toBe(keys.length);
});

test("N1: new rows are told apart by key, by whether the key guards them, and by their order", () => {
  const loose: Status[] = ["done"];
  const given = [
    row(null),
    row("b"),
    row("a"),
    row("b"),
    row("b", { correlationScope: loose }),
    row(null),
    row("taken"),
    row("b", { correlationScope: loose }),
  ];
  const inserted = [
    { id: "12", correlation_key: "b", guarded: "no" },
    { id: "10", correlation_key: "a", guarded: "yes" },
    { id: "11", correlation_key: "b", guarded: "yes" },
    { id: "13", correlation_key: "b", guarded: "no" },
    { id: "14", correlation_key: null, guarded: "no" },
    { id: "15", correlation_key: null, guarded: "no" },
  ];
  expect(matchInserted(given, inserted)).toEqual([14, 11, 10, undefined, 12, 15, undefined, 13]);
});
