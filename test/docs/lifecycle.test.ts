// docs/lifecycle.md draws packages/core/src/lifecycle.ts. GEN_DURABLE_WRITE_DOCS=1 writes the table anew.
import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "@jest/globals";
import { STATUSES } from "#core/instance.js";
import { EVENT_MEANINGS, INSTANCE_EVENTS, LIFECYCLE } from "#core/lifecycle.js";

const START = "<!-- lifecycle table -->\n";
const END = "<!-- end of the lifecycle table -->\n";
const file = "docs/lifecycle.md";

function drawTable(): string {
  const lines = [`| event | when | ${STATUSES.map((status) => `\`${status}\``).join(" | ")} |`];
  lines.push(`|${"---|".repeat(STATUSES.length + 2)}`);
  for (const event of INSTANCE_EVENTS) {
    const cells = STATUSES.map((status) => LIFECYCLE[status][event].replace("refused", "-"));
    lines.push(`| ${event} | ${EVENT_MEANINGS[event]} | ${cells.join(" | ")} |`);
  }
  return `${lines.join("\n")}\n`;
}

/** A table's cells, however its columns are aligned. */
function cellsOf(table: string): string[][] {
  return table
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim().replace(/^-{3,}$/, "---")));
}

test("the table in docs/lifecycle.md is the table in the code", () => {
  const text = readFileSync(file, "utf8");
  const start = text.indexOf(START) + START.length;
  const end = text.indexOf(END);
  expect(start).toBeGreaterThan(START.length);
  if (process.env.GEN_DURABLE_WRITE_DOCS === "1")
    writeFileSync(file, text.slice(0, start) + drawTable() + text.slice(end));
  else expect(cellsOf(text.slice(start, end))).toEqual(cellsOf(drawTable()));
});
