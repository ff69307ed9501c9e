import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { Outage } from "./outage.js";

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

function tell() {
  const lines: string[] = [];
  const fields: Record<string, unknown>[] = [];
  const outage = new Outage(
    {
      write: (level, message, facts = {}) => {
        lines.push(`${level}: ${message}`);
        fields.push(facts);
      },
    },
    () => Date.now(),
  );
  return { outage, lines, fields };
}

const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });

test("OU1: many connections that go and come back are two lines", () => {
  const { outage, lines, fields } = tell();
  outage.lost("heartbeat", refused);
  outage.lost("coordinator", refused);
  outage.back("heartbeat");
  outage.lost("flusher 0", refused);
  jest.advanceTimersByTime(5_000);
  outage.back("coordinator");
  outage.back("flusher 0");
  jest.advanceTimersByTime(500);
  outage.lost("listener", refused);
  outage.back("listener");
  expect(lines).toEqual(["warn: the connection to the database is lost; it is being reopened"]);
  jest.advanceTimersByTime(1_000);
  expect(lines).toEqual([
    "warn: the connection to the database is lost; it is being reopened",
    "info: the connection to the database is back",
  ]);
  expect(fields[1]).toEqual({
    connections: ["heartbeat", "coordinator", "flusher 0", "listener"],
    awayMs: 5_500,
  });
  outage.lost("heartbeat", refused);
  expect(lines).toHaveLength(3);
});

test("an outage that lasts is told again, with what is in the way by then", () => {
  const { outage, lines, fields } = tell();
  outage.lost("heartbeat", refused);
  jest.advanceTimersByTime(29_000);
  outage.lost("heartbeat", refused);
  expect(lines).toHaveLength(1);
  jest.advanceTimersByTime(1_000);
  outage.lost("heartbeat", refused);
  expect(lines).toHaveLength(2);
  jest.advanceTimersByTime(6_000);
  outage.lost("heartbeat", Object.assign(new Error("sorry, too many clients already"), { code: "53300" }));
  expect(lines[2]).toBe("warn: the database is still away");
  expect(fields[2]).toMatchObject({
    awayMs: 36_000,
    err: { code: "53300", message: expect.stringContaining("max_connections") },
  });
});
