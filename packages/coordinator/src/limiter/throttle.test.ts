import { expect, test } from "@jest/globals";
import { Report } from "../report.js";
import type { Denial } from "./limiter.js";
import { Throttle } from "./throttle.js";

function heard() {
  const told: unknown[][] = [];
  const report = new Report({
    log: (level, message, fields) => told.push([level, message, fields]),
    event: (name, fields) => told.push([name, fields]),
    fatal: (error) => told.push(["fatal", error]),
  });
  return { told, throttle: new Throttle(report) };
}

const denial = (why: Denial["why"]): Denial => ({
  kind: "conc",
  key: "stripe:1",
  why,
  refillInMs: null,
  wanted: 4,
  granted: 1,
});

test("a limit that holds rows back is told of with its key and its numbers; counters that were just locked are not", () => {
  const { told, throttle } = heard();
  throttle.tell("default", { denials: [denial("full"), denial("busy"), denial("unknown")], unknown: [] });
  expect(told).toEqual([
    ["throttled", { queue: "default", kind: "conc", key: "stripe:1", wanted: 4, granted: 1 }],
  ]);
});

test("TEL-11: an unconfigured rate limit is told of once a name, machine, step and queue", () => {
  const { told, throttle } = heard();
  const unknown = [
    { key: "typo:1", fsm: "charge", step: "start" },
    { key: "typo:2", fsm: "charge", step: "start" },
  ];
  throttle.tell("default", { denials: [], unknown });
  throttle.tell("default", { denials: [], unknown });
  expect(told.map(([name]) => name)).toEqual(["unknown", "warn"]);
  expect(told[0]?.[1]).toEqual({
    name: "typo",
    key: "typo:1",
    fsm: "charge",
    step: "start",
    queue: "default",
  });
  throttle.tell("other", { denials: [], unknown });
  expect(told).toHaveLength(4);
});
