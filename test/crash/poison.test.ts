// One step that kills its thread each time it runs, among neighbours in flight: only the culprit is blamed.

import { expect, test } from "@jest/globals";
import { createAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { startNode } from "../support/node.js";
import { countStatuses, insertRow, insertRows, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

const CRASH_LIMIT = 3;

test.each(["exit", "memory"])(
  "a poison row (%s) among 99 neighbours: 99 are done, none of them with more than one crash",
  async (how) => {
    const database = await createDatabase();
    await createAudit(database);
    await recordHistory(database);
    await insertRows(database, 50, { fsm: "sleeper", state: { ms: 30 } });
    const poison = await insertRow(database, { fsm: "poison", state: { how } });
    await insertRows(database, 49, { fsm: "sleeper", state: { ms: 30 } });
    const node = await startNode({
      database,
      fsms: ["basic", "failing"],
      config: {
        queues: { default: 100 },
        crashLimit: CRASH_LIMIT,
        workerHeapMb: 64,
        // Threads that are replaced again and again on a busy machine must not cost anybody a lease.
        leaseTtlMs: 30_000,
        heartbeatIntervalMs: 5_000,
      },
    });
    await until(async () => (await readRow(database, poison)).status === "failed", {
      timeoutMs: 45_000,
      describe: () => `the poison row has failed; the node logged:\n${node.stderr.slice(-3_000)}`,
    });
    await until(async () => (await countStatuses(database)).done === 99, {
      describe: "the neighbours are done",
    });
    expect((await readRow(database, poison)).last_error).toMatch(/crash|lost/i);

    const history = await readHistory(database);
    expect(illegalMoves(history)).toEqual([]);
    const worst = Math.max(...history.filter(({ id }) => id !== poison).map(({ crashes }) => crashes ?? 0));
    expect(worst).toBeLessThanOrEqual(1);
    expect(Math.max(...history.filter(({ id }) => id === poison).map(({ crashes }) => crashes ?? 0))).toBe(
      CRASH_LIMIT,
    );
    expect(await node.stop()).toMatchObject({ code: 0 });
  },
  60_000,
);
