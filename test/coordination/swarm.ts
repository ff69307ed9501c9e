// Swarm: parents with many children over two nodes and two queues with a flusher each, and what must hold of them.

import { expect } from "@jest/globals";
import { createClient } from "gen-durable";
import type { TestDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { startNode } from "../support/node.js";
import { until } from "../support/until.js";
import { swarm } from "./machines.js";

const QUEUES = ["one", "two"];

/** Runs `parents` parents of `children` children each to their end. */
export async function runSwarm(
  database: TestDatabase,
  { parents, children, timeoutMs }: { parents: number; children: number; timeoutMs: number },
): Promise<void> {
  await recordHistory(database);
  const config = {
    queues: { one: 20, two: 20 },
    flushers: QUEUES.map((queue) => ({ queues: [queue], maxBatch: 100, maxDelayMs: 20 })),
    leaseTtlMs: 30_000,
    heartbeatIntervalMs: 5_000,
  };
  const start = () =>
    startNode({
      database,
      fsms: ["test/coordination/machines.ts"],
      config,
      workers: 1,
      env: { GEN_DURABLE_TEST_AUDIT_URL: "" },
    });
  await Promise.all([start(), start()]);
  const client = createClient({ pool: database.pool });
  const inserted = await Promise.all(
    Array.from({ length: parents }, (_, n) =>
      client.insert(swarm, { state: { count: children, queues: QUEUES }, queue: QUEUES[n % 2] ?? "one" }),
    ),
  );
  const answers = await Promise.all(inserted.map(({ id }) => client.waitFor(id, { timeoutMs })));
  const sum = (children * (children - 1)) / 2;
  expect(answers).toEqual(inserted.map(() => ({ status: "done", result: { done: children, sum } })));
  await until(async () => (await client.list({ status: ["runnable", "executing"] })).instances.length === 0);
  await client.close();

  const history = await readHistory(database);
  expect(illegalMoves(history)).toEqual([]);
  for (const { id } of inserted)
    expectJoined(
      history.filter((entry) => entry.id === id),
      children,
    );
  // Every visit was claimed once; a lease that is extended is no other claim.
  expect(
    await database.query(
      "SELECT 1 FROM test_history WHERE status = 'executing' GROUP BY id, visit HAVING count(DISTINCT locked_by) > 1",
    ),
  ).toEqual([]);
  const nodes = await database.query(
    "SELECT DISTINCT split_part(locked_by, '/', 1) AS node FROM test_history WHERE status = 'executing'",
  );
  expect(nodes).toHaveLength(2);
  const ends = await database.one<{ transactions: number }>(
    "SELECT count(DISTINCT xid) AS transactions FROM test_history WHERE status = 'done'",
  );
  const counted = history.filter((entry) => entry.op === "UPDATE" && entry.status === "awaiting_children");
  // Siblings in one batch are one update of their parent: it cannot be written more often than batches committed.
  expect(counted.length).toBeLessThanOrEqual(parents * ends.transactions);
  expect(database.log().filter((line) => /deadlock detected/.test(line))).toEqual([]);
}

/** One park, one wake, and in between the count only falls; one change a transaction at most. */
function expectJoined(history: Awaited<ReturnType<typeof readHistory>>, children: number): void {
  const waits = history.filter((entry) => entry.status === "awaiting_children");
  expect(waits[0]?.children_pending).toBe(children);
  const pending = waits.map((entry) => entry.children_pending ?? -1);
  expect(pending).toEqual(pending.toSorted((a, b) => b - a));
  expect(Math.min(...pending)).toBeGreaterThan(0);
  expect(new Set(pending).size).toBe(pending.length);
  expect(new Set(waits.map((entry) => entry.xid)).size).toBe(waits.length);
  const wakes = history.filter(
    (entry, n) => entry.status === "runnable" && history[n - 1]?.status === "awaiting_children",
  );
  expect(wakes).toHaveLength(1);
  expect(wakes[0]?.children_pending).toBe(0);
}
