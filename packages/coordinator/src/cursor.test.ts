import { expect, test } from "@jest/globals";
import { Cursor } from "./cursor.js";

const place = (priority: number, id: number) => ({ priority, eligibleAt: "2026-01-01", id });

test("a cursor resumes where each priority stopped, most urgent first", () => {
  const cursor = new Cursor();
  expect(cursor.places(0)).toBeNull();
  cursor.advance([place(5, 1)], 0);
  cursor.advance([place(0, 2), place(5, 9)], 10);
  expect(cursor.places(20)).toEqual([place(0, 2), place(5, 9)]);
});

test("CU1: it lives 100 ms at most, however often it advances", () => {
  const cursor = new Cursor();
  for (let nowMs = 0; nowMs < 100; nowMs += 10) cursor.advance([place(0, nowMs)], nowMs);
  expect(cursor.places(99)).not.toBeNull();
  expect(cursor.places(100)).toBeNull();
  cursor.advance([place(0, 1)], 101);
  expect(cursor.places(150)).not.toBeNull();
});

test("dropped, it looks everywhere", () => {
  const cursor = new Cursor();
  cursor.advance([place(0, 1)], 0);
  cursor.drop();
  expect(cursor.places(1)).toBeNull();
});
