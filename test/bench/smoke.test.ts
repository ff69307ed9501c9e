// Each benchmark runs, small, and ends with the one JSON object that it promises. No figure is judged here.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "@jest/globals";

const run = promisify(execFile);

test.each([
  ["drain", ["--rows", "500", "--rounds", "1"], ["drain_ratio", "two_nodes_ratio", "defaults_ratio"]],
  ["fan-out", ["--children", "50", "--rounds", "1"], ["fan_out"]],
  ["insert", ["--rows", "5000", "--rounds", "1", "--sliceMs", "50"], ["insert_many", "poke_cost"]],
])("bench %s prints its checks", async (name, options, names) => {
  const { stdout } = await run(process.execPath, [
    "scripts/run.mjs",
    "benchmarks/main.ts",
    name,
    ...options,
    "--json",
  ]);
  const last: unknown = JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
  const { checks } = last as { checks: Record<string, unknown> };
  expect(Object.keys(checks)).toEqual(names);
  for (const check of Object.values(checks))
    expect(check).toEqual({
      value: expect.any(Number),
      target: expect.any(Number),
      ok: expect.any(Boolean),
    });
});
