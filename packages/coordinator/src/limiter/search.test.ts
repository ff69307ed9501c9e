import { expect, test } from "@jest/globals";
import type { LimitedClaim } from "../limitedClaim.js";
import { LimitedSearch } from "./search.js";

const NOTHING: LimitedClaim = {
  rows: [],
  keys: [],
  reached: [],
  seen: 0,
  isCut: false,
  isLimited: true,
  plenty: "short",
  denials: [],
  busyKeys: [],
  moreKeys: [],
  unknown: [],
};
const PLACE = { priority: 0, eligibleAt: "2026-01-01 00:00:00+00", id: 7 };
const denied = (kind: "conc" | "rate", refillInMs: number | null = null) => ({
  kind,
  key: "k",
  why: "full" as const,
  refillInMs,
  wanted: 5,
  granted: 0,
});

/** A search that stands at PLACE, with the key of a backlog before it denied. */
function stalled(kind: "conc" | "rate", refillInMs: number | null = null): LimitedSearch {
  const search = new LimitedSearch(0);
  const step = search.begin(10, 0);
  expect(step).toMatchObject({ places: [], probes: [], isPeek: false });
  const claim = { ...NOTHING, seen: step.windowRows, reached: [PLACE], denials: [denied(kind, refillInMs)] };
  expect(search.end(step, claim, 1)).toBe(false);
  return search;
}

test("SE1: a full key is left out until it is freed; then it is probed, by every pick that leaves rows of it", () => {
  const search = stalled("conc");
  let step = search.begin(10, 2);
  expect(step).toMatchObject({ places: [PLACE], excluded: { keys: ["k"], rates: [] }, probes: [] });
  expect(search.end(step, NOTHING, 3)).toBe(true);
  expect(search.nextAtMs).toBe(101);
  expect(search.freed("k", 4)).toBe(true);
  expect(search.nextAtMs).toBe(4);
  step = search.begin(10, 5);
  expect(step).toMatchObject({ places: [PLACE], excluded: { keys: [] }, probes: ["k"] });
  expect(search.end(step, { ...NOTHING, isCut: true }, 6)).toBe(false);
  step = search.begin(10, 7);
  expect(step.probes).toEqual(["k"]);
  expect(search.end(step, NOTHING, 8)).toBe(true);
  expect(search.nextAtMs).toBe(Number.POSITIVE_INFINITY);
});

test("what is freed while a pick is in flight counts against what that pick says", () => {
  const search = stalled("conc");
  const step = search.begin(10, 150);
  expect(step.probes).toEqual(["k"]);
  search.freed("k", 151);
  search.end(step, { ...NOTHING, denials: [denied("conc")] }, 152);
  expect(search.begin(10, 153).probes).toEqual(["k"]);
});

test("pauses grow while nothing changes, up to a second", () => {
  const search = stalled("conc");
  const pauses: number[] = [];
  for (let nowMs = 1; pauses.length < 5; ) {
    pauses.push(search.nextAtMs - nowMs);
    nowMs = search.nextAtMs;
    const step = search.begin(10, nowMs);
    search.end(step, { ...NOTHING, denials: [denied("conc")] }, nowMs);
  }
  expect(pauses).toEqual([100, 200, 400, 800, 1_000]);
});

test("SE3: a rate that has refilled is looked for at the front, without leaving the place", () => {
  const search = stalled("rate", 40);
  expect(search.nextAtMs).toBe(41);
  let step = search.begin(10, 50);
  expect(step).toMatchObject({ places: [], isPeek: true, excluded: { keys: [], rates: [] } });
  expect(search.end(step, { ...NOTHING, seen: step.windowRows, denials: [denied("rate", 40)] }, 51)).toBe(
    false,
  );
  step = search.begin(10, 52);
  expect(step).toMatchObject({ isPeek: false, places: [PLACE], excluded: { rates: ["k"] } });
});

test("SE3: a peek that did not meet its rate at the front begins the search anew", () => {
  const search = stalled("rate", 40);
  const step = search.begin(10, 50);
  expect(search.end(step, { ...NOTHING, seen: step.windowRows }, 51)).toBe(false);
  expect(search.begin(10, 52)).toMatchObject({ isPeek: false, places: [] });
});

test("SE1: a probed gate of which a pick has not looked at every row is probed again", () => {
  const search = stalled("conc");
  search.freed("k", 5);
  search.end(search.begin(10, 6), { ...NOTHING, moreKeys: ["k"] }, 7);
  expect(search.begin(10, 8).probes).toEqual(["k"]);
});

test("every key that was freed is probed by the next pick, as many as it may claim rows", () => {
  const search = new LimitedSearch(0);
  const keys = Array.from({ length: 1_500 }, (_, n) => `k${n}`);
  search.end(search.begin(1_000, 0), { ...NOTHING, busyKeys: keys }, 1);
  for (const key of keys) search.freed(key, 2);
  const { probes, excluded } = search.begin(1_000, 3);
  expect([probes.length, excluded.keys.length]).toEqual([1_000, 500]);
});

test("SE2: a search that was poked begins anew, but not before it has lived twenty times as long as it took", () => {
  const search = new LimitedSearch(0);
  const step = search.begin(10, 0);
  search.end(step, { ...NOTHING, seen: step.windowRows, reached: [PLACE] }, 30);
  search.poke();
  expect(search.nextAtMs).toBe(600);
  expect(search.begin(10, 599).places).toEqual([PLACE]);
  expect(search.begin(10, 600).places).toEqual([]);
});

test("SE2: what is picked after the end was reached does not put off the next beginning", () => {
  const search = new LimitedSearch(0);
  const step = search.begin(10, 0);
  search.end(step, { ...NOTHING, seen: step.windowRows, reached: [PLACE] }, 5);
  for (let nowMs = 5; nowMs < 2_000; nowMs += 10) search.end(search.begin(10, nowMs), NOTHING, nowMs + 10);
  search.poke();
  expect(search.nextAtMs).toBeLessThan(1_000);
  expect(search.begin(10, 2_000).places).toEqual([]);
});
