// Rows that a node has lost before their next step began: it learns of it by its heartbeat, and begins nothing.
import { beforeAll, expect, test } from "@jest/globals";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import type { NodeProcess } from "../support/node.js";
import { NodePauses } from "../support/pauses.js";
import { readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { ended, insertWalk, startWalkers } from "./rig.js";

const database = await createDatabase();
const pauses = new NodePauses();
let node: NodeProcess;

beforeAll(async () => {
  await createAudit(database);
  const config = { queues: { default: 1 }, prefetch: 2, heartbeatIntervalMs: 100 };
  node = await startWalkers(database, config, { workers: 1, env: pauses.environment });
});

const steps = async (id: number): Promise<number> => (await readAudit(database, id)).length;

/** Another node has the row now, and this one has had a heartbeat since. */
async function steal(id: number, neighbour: number): Promise<void> {
  await database.query("UPDATE gen_durable SET locked_by = 'another/1' WHERE id = $1", [id]);
  // A lease that is about to run out is extended by the next heartbeat, in the batch that misses the stolen row.
  const lease = async (): Promise<number> =>
    (
      await database.one<{ at: Date }>("SELECT lease_expires_at AS at FROM gen_durable WHERE id = $1", [
        neighbour,
      ])
    ).at.getTime();
  for (let beats = 0; beats < 2; beats++) {
    const before = await lease();
    await until(async () => (await lease()) > before, { describe: "a heartbeat" });
  }
}

test("neither a claimed row nor a chain that waits for its slot begins when its claim is known to be lost", async () => {
  const chain = await insertWalk(database, [{ hold: "chain" }, {}, {}]);
  await until(async () => (await steps(chain)) === 1);
  const [neighbour, claimed] = [
    await insertWalk(database, [{ hold: "neighbour" }]),
    await insertWalk(database, [{}, {}]),
  ];
  await until(async () => (await readRow(database, claimed)).status === "executing");
  pauses.hold("flush.committed");
  await letGo(database, "chain");
  await pauses.reached("flush.committed");
  await until(async () => (await steps(neighbour)) === 1, { describe: "the slot is the neighbour's" });
  pauses.release("flush.committed");
  await steal(chain, neighbour);
  await steal(claimed, neighbour);
  await letGo(database, "neighbour");
  await ended(database, neighbour);
  const last = await insertWalk(database, [{}]);
  await ended(database, last);
  expect([await steps(chain), await steps(claimed)]).toEqual([1, 0]);
  for (const id of [chain, claimed])
    expect(await readRow(database, id)).toMatchObject({ status: "executing", locked_by: "another/1" });
  expect((await node.stop()).code).toBe(0);
}, 60_000);
