// Run: one benchmark, as a user runs it.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect } from "@jest/globals";

const run = promisify(execFile);

/** Runs it with `--json`, and expects exactly these checks in the last line. No figure is judged. */
export async function expectChecks(name: string, options: string[], names: string[]): Promise<void> {
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
}
