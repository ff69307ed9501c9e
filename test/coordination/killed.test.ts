// Parents whose node is killed at any moment of a fan-out: between spawn and park there is nothing, since both are one
// transaction, and no orphan of a lost try counts a later join down.

import { beforeAll, expect, test } from "@jest/globals";
import { createClient } from "gen-durable";
import { createAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { startNode } from "../support/node.js";
import { seededRandom } from "../support/seed.js";
import { until } from "../support/until.js";
import { fan } from "./machines.js";

const PARENTS = 100;
const KIDS = 5;
const KILLS = 2;

const database = await createDatabase();

beforeAll(async () => {
  await createAudit(database);
  await recordHistory(database);
});

const start = () =>
  startNode({
    database,
    fsms: ["test/coordination/machines.ts"],
    workers: 1,
    config: { queues: { default: 10, kids: 10 }, leaseTtlMs: 5_000, heartbeatIntervalMs: 1_000 },
    env: { GEN_DURABLE_TEST_AUDIT_URL: "" },
  });

test("CHI-16: SIGKILL at random in a hundred fan-outs: every join once, no count below what is left", async () => {
  const random = seededRandom("killed");
  const client = createClient({ pool: database.pool });
  let node = await start();
  await client.insertMany(
    fan,
    Array.from({ length: PARENTS }, () => ({ state: { count: KIDS, queue: "kids" } })),
  );
  const parents = (condition: string) =>
    database.query<{ id: number }>(
      `SELECT id FROM gen_durable WHERE fsm = 'fan' AND ${condition} ORDER BY id`,
    );
  for (let kill = 1; kill <= KILLS; kill++) {
    // Somewhere in the work: when so many more parents have ended.
    const wanted = Math.floor((kill * PARENTS) / (KILLS + 1) - random.between(0, 15));
    await until(async () => (await parents("status = 'done'")).length >= wanted, { everyMs: 2 });
    await node.kill();
    node = await start();
  }
  await until(async () => (await parents("status = 'done'")).length === PARENTS, { timeoutMs: 40_000 });
  await client.close();

  const history = await readHistory(database);
  expect(illegalMoves(history)).toEqual([]);
  const moves = new Map<number, string[]>();
  for (const { id, status, children_pending } of history) {
    expect(children_pending ?? 0).toBeGreaterThanOrEqual(0);
    const known = moves.get(id);
    if (known === undefined) moves.set(id, [status ?? ""]);
    else if (known.at(-1) !== status) known.push(status ?? "");
  }
  const all = await database.query<{ id: number; result: unknown }>(
    "SELECT id, result FROM gen_durable WHERE fsm = 'fan'",
  );
  for (const { id, result } of all) {
    expect(result).toEqual({ done: KIDS, failed: 0, all: KIDS });
    expect(moves.get(id)?.filter((status) => status === "awaiting_children")).toHaveLength(1);
  }
  // Not one child more than the committed fan-outs made.
  expect(await database.one("SELECT count(*) AS n FROM gen_durable WHERE fsm = 'leaf'")).toEqual({
    n: PARENTS * KIDS,
  });
}, 120_000);
