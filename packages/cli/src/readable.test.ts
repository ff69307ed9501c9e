import { expect, test } from "@jest/globals";
import { colorsFor, hasColors } from "./colors.js";
import { maskText } from "./mask.js";
import { formatRecord } from "./readable.js";

const plain = colorsFor(false);

test("a record is a line: clock, level, message, fields", () => {
  const record = {
    name: "gen-durable",
    hostname: "host",
    pid: 1,
    level: 40,
    msg: "a lease was lost",
    time: new Date("2030-01-02T03:04:05.678Z"),
    v: 0,
    node: "n1",
    text: "two words",
    queues: { default: 10 },
  };
  expect(formatRecord(record, plain)).toBe(
    `03:04:05.678 WARN  a lease was lost  node=n1 text="two words" queues={ default: 10 }`,
  );
  expect(formatRecord({ ...record, time: "2030-01-02T03:04:05.678Z" }, colorsFor(true))).toContain(
    "\u001b[33mWARN ",
  );
});

test("an error is shown below its line, with its stack where it has one", () => {
  const line = { level: 50, msg: "failed", time: "2030-01-02T03:04:05.678Z" };
  expect(formatRecord({ ...line, err: { message: "no", stack: "Error: no\n    at f" } }, plain)).toBe(
    "03:04:05.678 ERROR failed\n    Error: no\n        at f",
  );
  expect(formatRecord({ ...line, err: { code: "E1", message: "no" } }, plain)).toMatch(/\n {4}E1 no$/);
});

test("NO_COLOR goes before FORCE_COLOR, and both before the terminal", () => {
  const terminal = { isTTY: true };
  const file = { isTTY: false };
  expect(hasColors(terminal, {})).toBe(true);
  expect(hasColors(file, {})).toBe(false);
  expect(hasColors(file, { FORCE_COLOR: "1" })).toBe(true);
  expect(hasColors(terminal, { FORCE_COLOR: "0" })).toBe(false);
  expect(hasColors(terminal, { NO_COLOR: "1", FORCE_COLOR: "1" })).toBe(false);
  expect(hasColors(terminal, { NO_COLOR: "" })).toBe(true);
});

test("passwords in URLs are masked wherever they stand in a text", () => {
  expect(maskText("it is postgres://me:s3cret@host:5432/db?sslmode=require, not http://host:80/x")).toBe(
    "it is postgres://me:***@host:5432/db?sslmode=require, not http://host:80/x",
  );
  expect(maskText("postgres://host/db?user=me&password=s3cret")).toBe(
    "postgres://host/db?user=me&password=***",
  );
});
