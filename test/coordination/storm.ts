// Storm: as many signals as parks within a moment. Whatever meets whatever, each instance wakes exactly once.

import { expect } from "@jest/globals";
import { createClient } from "gen-durable";
import type { TestDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { startNode } from "../support/node.js";
import { countStatuses } from "../support/rows.js";
import { until } from "../support/until.js";
import { waiter } from "./machines.js";

/** Sends a signal to each of `count` instances while they are about to park. */
export async function runStorm(
  database: TestDatabase,
  { count, timeoutMs }: { count: number; timeoutMs: number },
): Promise<void> {
  await recordHistory(database);
  await startNode({
    database,
    fsms: ["test/coordination/machines.ts"],
    // A lease that outlives a busy machine: what is lost is claimed again, and claims are counted.
    config: { queues: { default: 300 }, leaseTtlMs: 60_000, heartbeatIntervalMs: 10_000 },
    env: { GEN_DURABLE_TEST_AUDIT_URL: "" },
  });
  const client = createClient({ url: database.url });
  const results = await client.insertMany(
    waiter,
    Array.from({ length: count }, () => ({})),
  );
  const ids = results.map(({ id }) => id);
  // As soon as parks are under way, signals come from four sides, in another order than the parks.
  await until(async () => ((await countStatuses(database)).awaiting_signal ?? 0) > count / 50, {
    everyMs: 1,
  });
  const sides = [0, 1, 2, 3].map(async (side) => {
    const targets = ids.filter((_, n) => n % 4 === side);
    if (side % 2 === 1) targets.reverse();
    for (let first = 0; first < targets.length; first += 50) {
      const signals = targets
        .slice(first, first + 50)
        .map((target) => ({ target, name: "go", payload: target }));
      const answers = await client.signalMany(signals);
      expect(answers.every(({ ok }) => ok)).toBe(true);
    }
  });
  await Promise.all(sides);
  await until(async () => (await countStatuses(database)).done === count, {
    timeoutMs,
    describe: `${count} instances are done`,
  });
  await client.close();

  const wrong = await database.query("SELECT id FROM gen_durable WHERE result IS DISTINCT FROM to_jsonb(id)");
  expect(wrong).toEqual([]);
  const history = await readHistory(database);
  expect(illegalMoves(history)).toEqual([]);
  // Two claims: one parked it, or found the signal there; one was woken by it.
  const claims = new Map<number, number>();
  let parks = 0;
  const owned = new Set<string>();
  for (const { id, status, locked_by } of history) {
    const claim = `${id} ${locked_by}`;
    // A lease that is extended is no other claim.
    if (status === "executing" && !owned.has(claim)) {
      owned.add(claim);
      claims.set(id, (claims.get(id) ?? 0) + 1);
    }
    if (status === "awaiting_signal") parks++;
  }
  expect([...claims].filter(([, claimed]) => claimed !== 2)).toEqual([]);
  expect(claims.size).toBe(count);
  // The race was one: some were parked when their signal came, and some were not yet.
  process.stderr.write(`storm: ${parks} of ${count} were parked when their signal came\n`);
  expect(await database.query("SELECT 1 FROM signals WHERE consumed_at IS NULL")).toEqual([]);
  expect(database.log().filter((line) => /deadlock detected/.test(line))).toEqual([]);
}
