// Pause points: each stands in the code once, and none does anything unless a test holds it.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "@jest/globals";
import { pauseAt } from "#core/pausePoint.js";
import { disarm, holdAt } from "../support/pauses.js";

afterEach(disarm);

test("every named point stands in the code exactly once, and no other does", () => {
  const sources = readdirSync("packages", { recursive: true, encoding: "utf8" })
    .filter((file) => /^[a-z]+\/src\/.*\.ts$/.test(file) && !file.endsWith("pausePoint.ts"))
    .map((file) => readFileSync(join("packages", file), "utf8"));
  const used = sources.flatMap((text) =>
    [...text.matchAll(/pauseAt\("([^"]+)"\)/g)].map((match) => match[1]),
  );
  const named = readFileSync("packages/core/src/pausePoint.ts", "utf8").matchAll(/^ {2}\| "([^"]+)"/gm);
  const points = [...new Set([...named].map((match) => match[1]))].sort();
  // A cancel and a retry share one point.
  expect(used.filter((point) => point !== "control.locked").sort()).toEqual(
    points.filter((point) => point !== "control.locked"),
  );
  expect(points).toContain("control.locked");
});

test("PP1: unarmed, a point answers nothing to wait for", () => {
  expect(pauseAt("flush.locked")).toBeUndefined();
});

test("a hold is for one arrival", async () => {
  const hold = holdAt("flush.locked");
  const passed = pauseAt("flush.locked");
  await hold.reached;
  expect(pauseAt("flush.locked")).toBeUndefined();
  hold.release();
  await passed;
});
