// A connection that falls silent under a flush costs the time that it is waited for, and no step a second run.

import { expect, test } from "@jest/globals";
import { patienceMs } from "#core/database/patience.js";
import { readAudit } from "../support/audit.js";
import { severed } from "./severed.js";

const LEASE_TTL_MS = 6_000;

const rig = severed();

test("what a flusher's silent connection held up is committed over another one before the lease runs out", async () => {
  const node = await rig.start(250, { leaseTtlMs: LEASE_TTL_MS, heartbeatIntervalMs: 1_500 });
  await rig.runOne(20_000);
  expect(rig.proxy.blackHole((name) => name.startsWith("gen-durable flusher"))).toBe(1);
  const { id } = await rig.client.insertByName("plain");
  const ended = await rig.client.waitFor(id, { timeoutMs: 20_000 });
  expect(ended).toMatchObject({ status: "done" });
  const [run, ...again] = await readAudit(rig.database, id);
  expect(again).toEqual([]);
  const tookMs = await rig.database.one<{ ms: number }>(
    "SELECT extract(epoch FROM updated_at - $2)::float8 * 1000 AS ms FROM gen_durable WHERE id = $1",
    [id, run?.entered_at],
  );
  expect(tookMs.ms).toBeGreaterThan(patienceMs(LEASE_TTL_MS) - 1_000);
  expect(tookMs.ms).toBeLessThan(LEASE_TTL_MS);
  expect(await node.stop()).toEqual({ code: 0, signal: null });
}, 60_000);

test("patience is half of a lease, from 2 to 15 s", () => {
  expect([1_000, 6_000, 20_000, 60_000].map(patienceMs)).toEqual([2_000, 3_000, 10_000, 15_000]);
});
