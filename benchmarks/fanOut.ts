// fan-out: parents that spawn children in one step and join them all, through a whole node.
// Machine:  printed; Postgres, node and caller share it. fsync and synchronous_commit are on.
// Settings: one node, queue concurrency 1,000, one flusher, batches of at most 1,000, far polls, no GC. Parents and children are in one queue.
// Method:   two warm-up rounds; each round empties the table, inserts the parents with one call, and times from before that call until a session
//           that looks every few milliseconds sees all of them done. Medians over the rounds. CPU is what the kernel says of the processes.

import { createClient } from "gen-durable";
import { until } from "../test/support/until.js";
import { emptyTable, TUNED } from "./backlog.js";
import type { Benchmark } from "./bench.js";
import { family } from "./fsms/bench.js";
import { median } from "./report.js";
import { cpuMicroseconds } from "./usage.js";

const WARM_UP_ROUNDS = 2;
const JOIN_TIMEOUT_MS = 120_000;

export const fanOut: Benchmark = {
  name: "fan-out",
  about: "parents that spawn children and join them",
  options: { parents: 5, children: 1_000, rounds: 7, workers: 1 },
  async run(bench, options, report) {
    const { parents = 0, children = 0, rounds = 0, workers = 0 } = options;
    const database = await bench.createDatabase("fan_out");
    const node = await bench.startNode(database, TUNED, workers);
    const client = createClient({ url: database.url });
    const rates: number[] = [];
    const nodeCpus: number[] = [];
    const serverCpus: number[] = [];
    for (let round = 1 - WARM_UP_ROUNDS; round <= rounds; round++) {
      await emptyTable(database);
      const nodeBefore = cpuMicroseconds(node.pid);
      const serverBefore = cpuMicroseconds(bench.serverPid);
      const startMs = performance.now();
      const inserted = await client.insertMany(
        family,
        Array.from({ length: parents }, () => ({ state: { children } })),
      );
      const ids = inserted.map((answer) => answer.id);
      const options = { timeoutMs: JOIN_TIMEOUT_MS, everyMs: 3, describe: "all parents are done" };
      await until(
        async () =>
          (await database.query("SELECT 1 FROM gen_durable WHERE id = ANY ($1) AND status = 'done'", [ids]))
            .length === parents,
        options,
      );
      const rate = (parents * children) / ((performance.now() - startMs) / 1_000);
      const { done } = await database.one<{ done: number }>(
        "SELECT count(*) AS done FROM gen_durable WHERE parent_id IS NOT NULL AND status = 'done'",
      );
      if (done !== parents * children) throw new Error(`${done} children are done`);
      if (round < 1) continue;
      rates.push(rate);
      nodeCpus.push((cpuMicroseconds(node.pid) - nodeBefore) / (parents * children));
      serverCpus.push((cpuMicroseconds(bench.serverPid) - serverBefore) / (parents * children));
      console.log(`round ${round}: ${Math.round(rate)} children/s`);
    }
    await client.close();
    report.figure("node_cpu", median(nodeCpus), "us a child");
    report.figure("server_cpu", median(serverCpus), "us a child");
    report.check("fan_out", median(rates), "children/s", "atLeast", 15_000);
  },
};
