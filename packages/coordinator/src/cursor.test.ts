import { expect, test } from "@jest/globals";
import { Cursor, type Look } from "./cursor.js";

const place = (priority: number, id: number) => ({ priority, eligibleAt: "2026-01-01", id });
const full = (...reached: ReturnType<typeof place>[]) => ({ reached, isShort: false, count: 1_000 });
const short = (...reached: ReturnType<typeof place>[]) => ({ reached, isShort: true, count: reached.length });

/** A cursor whose looks from the start have become dear at 1,000 ms: 200 ms each. */
function dearCursor(): Cursor {
  const cursor = new Cursor();
  for (const beganAtMs of [0, 400, 800]) {
    const look: Look = { kind: "whole", places: [], marginMs: 0, beganAtMs };
    cursor.tell(look, full(place(0, 1)), beganAtMs + 200);
  }
  cursor.poke();
  return cursor;
}

test("CU1: a run goes on where each priority stopped, 100 ms at most", () => {
  const cursor = new Cursor();
  const whole = cursor.look(0);
  expect(whole).toMatchObject({ kind: "whole", places: [] });
  expect(cursor.tell(whole, full(place(5, 1)), 1)).toBe(false);
  const run = cursor.look(10);
  expect(run).toMatchObject({ kind: "run", places: [place(5, 1)], marginMs: 0 });
  cursor.tell(run, full(place(0, 2), place(5, 9)), 11);
  expect(cursor.look(100)).toMatchObject({ kind: "run", places: [place(0, 2), place(5, 9)] });
  expect(cursor.look(101).kind).toBe("whole");
});

test("CU1: a short pick ends the run and not the search; a poke ends the run", () => {
  const cursor = new Cursor();
  cursor.tell(cursor.look(0), full(place(0, 1)), 1);
  expect(cursor.tell(cursor.look(2), short(), 3)).toBe(false);
  const whole = cursor.look(4);
  expect(whole.kind).toBe("whole");
  expect(cursor.tell(whole, short(), 5)).toBe(true);
  cursor.tell(cursor.look(6), full(place(0, 2)), 7);
  cursor.poke();
  expect(cursor.look(8).kind).toBe("whole");
});

test("CU3: where looks from the start are cheap, or few rows were taken, every search is one", () => {
  const cursor = new Cursor();
  for (let nowMs = 0; nowMs < 10_000; nowMs += 10) {
    const look = cursor.look(nowMs);
    expect(look.kind).toBe("whole");
    expect(cursor.tell(look, short(place(0, nowMs)), nowMs + 4)).toBe(true);
    expect(cursor.nextAtMs).toBe(Number.POSITIVE_INFINITY);
  }
  const slow = new Cursor();
  for (let nowMs = 0; nowMs < 10_000; nowMs += 50)
    expect(slow.tell(slow.look(nowMs), short(place(0, nowMs)), nowMs + 40)).toBe(true);
});

test("CU2, CU3: where they are dear a search begins a little before the places, and the look from the start follows", () => {
  const cursor = dearCursor();
  const trail = cursor.look(1_000);
  expect(trail).toMatchObject({ kind: "trail", places: [place(0, 1)], marginMs: 1_000 });
  expect(cursor.tell(trail, short(place(0, 2)), 1_001)).toBe(true);
  expect(cursor.nextAtMs).toBe(2_000);
  expect(cursor.look(1_999)).toMatchObject({ kind: "trail", places: [place(0, 2)] });
  const whole = cursor.look(2_000);
  expect(whole.kind).toBe("whole");
  // The index has been cleaned meanwhile.
  expect(cursor.tell(whole, short(), 2_002)).toBe(true);
  expect(cursor.nextAtMs).toBe(Number.POSITIVE_INFINITY);
  expect(cursor.look(2_003).kind).toBe("whole");
});

test("CU3: a trail that ends when the look from the start is due does not end the search", () => {
  const cursor = dearCursor();
  expect(cursor.tell(cursor.look(1_990), short(), 2_001)).toBe(false);
  expect(cursor.look(2_001).kind).toBe("whole");
});

test("told to forget, it looks from the start", () => {
  const cursor = dearCursor();
  cursor.forget();
  expect(cursor.look(1_000).kind).toBe("whole");
});

test("places are forgotten when their priority was not met for a minute, and beyond sixty-four", () => {
  const cursor = dearCursor();
  const many = Array.from({ length: 80 }, (_, priority) => place(priority + 1, 7));
  cursor.tell(cursor.look(1_100), short(...many), 1_200);
  expect(cursor.look(1_300).places.map(({ priority }) => priority)).toEqual(
    many.slice(16).map(({ priority }) => priority),
  );
  cursor.tell(cursor.look(1_300), short(place(3, 1)), 62_000);
  cursor.forget();
  cursor.tell(cursor.look(62_000), full(), 62_300);
  expect(cursor.look(62_310).places).toEqual([place(3, 1)]);
});
