import { expect, test } from "@jest/globals";
import { Ledger } from "#core/ledger.js";
import { Member } from "./member.js";
import { countDeath } from "./respawn.js";

const member = (): Member => new Member(0, 1, Ledger.create({ threads: 1, queues: 1, flushers: 1 }));

test("the delay doubles from 100 ms to 10 s while a thread dies at once", () => {
  const dying = member();
  const delays = Array.from({ length: 9 }, () => countDeath(dying, { startedAtMs: 0, nowMs: 10 }));
  expect(delays).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
});

test("a completed row or a healthy minute starts it anew", () => {
  const dying = member();
  for (let death = 0; death < 5; death++) countDeath(dying, { startedAtMs: 0, nowMs: 10 });
  dying.endedAtMs = 105;
  expect(countDeath(dying, { startedAtMs: 100, nowMs: 110 })).toBe(100);
  expect(countDeath(dying, { startedAtMs: 200, nowMs: 210 })).toBe(200);
  expect(countDeath(dying, { startedAtMs: 300, nowMs: 60_300 })).toBe(100);
});
