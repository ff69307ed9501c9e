// What steps do to a node that is nobody's fault but theirs: the node lives, and its memory stays bounded.

import { readFileSync } from "node:fs";
import { expect, test } from "@jest/globals";
import { createAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { startNode } from "../support/node.js";
import { countStatuses, insertRow, insertRows, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

/** Resident memory of a process at its highest, MiB. */
function peakMemoryMb(pid: number): number {
  const match = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(match?.[1]) / 1024;
}

test("a flood of log lines, a 1 MB state, a stray rejection and a step that never ends: the node lives", async () => {
  const database = await createDatabase();
  await createAudit(database);
  const node = await startNode({ database, fsms: ["basic", "failing"] });
  const chatty = await insertRow(database, { fsm: "chatty", state: { lines: 10_000 } });
  const stray = await insertRow(database, { fsm: "stray" });
  const forever = await insertRow(database, { fsm: "forever" });
  const bulky = await insertRow(database, { fsm: "bulky", state: { text: "x".repeat(1024 * 1024) } });
  const plain = await insertRows(database, 50);

  await until(async () => ((await countStatuses(database)).done ?? 0) >= plain.length + 3, {
    describe: "everybody else is done",
  });
  await until(async () => (await readRow(database, forever)).status === "failed", {
    describe: "the step that never ends has timed out",
  });
  expect((await readRow(database, forever)).last_error).toContain("timeout");
  for (const id of [chatty, stray, bulky]) expect((await readRow(database, id)).status).toBe("done");
  expect((await readRow(database, bulky)).result).toEqual({ length: 1024 * 1024 });
  const { crashes } = await database.one<{ crashes: number }>(
    "SELECT max(crashes) AS crashes FROM gen_durable",
  );
  expect(crashes).toBe(0);
  if (process.platform === "linux") expect(peakMemoryMb(node.pid)).toBeLessThan(600);
  expect(await node.stop()).toMatchObject({ code: 0 });
}, 120_000);
