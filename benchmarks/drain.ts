// drain: one-step instances through a whole node, against the raw-SQL ceiling of the same run; through two nodes on the same
// cores; and through a node with default settings.
// Machine:  printed; Postgres and nodes share it. fsync and synchronous_commit are on.
// Settings: the tuned node: queue concurrency 1,000, one flusher, batches of at most 1,000, far polls, no GC. The pair: two of it. The
//           default node: `--workers 2` and nothing else. All stay up for the whole run; each has a database of its own.
// Method:   a warm-up, then rounds; each round empties the table, inserts the rows in one transaction, and times from that commit
//           to the last one, both by the database's clock. Ceiling and nodes alternate, so that what else the machine does
//           meets all of them. CPU is what the kernel says of the node's process and of the server's. Medians over the rounds.

import type { TestDatabase } from "../test/support/database.js";
import { type Drained, emptyTable, insertBacklog, measureDrain, TUNED } from "./backlog.js";
import type { Benchmark } from "./bench.js";
import { measureCeiling } from "./ceiling.js";
import { median } from "./report.js";

/** Warm-up rows, as a share of a round's. */
const WARM_UP_SHARE = 0.2;

export const drain: Benchmark = {
  name: "drain",
  about:
    "one-step instances: the claim and flush statements alone, one node, two nodes, default settings; CPU a job",
  options: { rows: 100_000, rounds: 3, batch: 1_000, concurrency: 1_000, workers: 1, defaultWorkers: 2 },
  async run(bench, options, report) {
    const { rows = 0, rounds = 0, batch = 0, concurrency = 0, workers = 0, defaultWorkers = 0 } = options;
    const tuned = {
      ...TUNED,
      queues: { bench: concurrency },
      flushers: [{ queues: "all", maxBatch: batch, maxDelayMs: 20 }],
    };
    const raw = await bench.createDatabase("ceiling");
    const whole = await bench.createDatabase("whole_node");
    const shared = await bench.createDatabase("two_nodes");
    const plain = await bench.createDatabase("defaults");
    const node = await bench.startNode(whole, tuned, workers);
    const pair = [
      await bench.startNode(shared, tuned, workers),
      await bench.startNode(shared, tuned, workers),
    ];
    const plainNode = await bench.startNode(plain, {}, defaultWorkers);
    const runs = {
      one: (count: number) => measureDrain(bench, whole, [node], { rows: count }),
      two: (count: number) => measureDrain(bench, shared, pair, { rows: count }),
      plain: (count: number) => measureDrain(bench, plain, [plainNode], { rows: count, queue: "default" }),
    };
    const warmUp = Math.ceil(rows * WARM_UP_SHARE);
    await measureCeilingOf(raw, warmUp, batch);
    for (const run of Object.values(runs)) await run(warmUp);

    const ceilings: number[] = [];
    const drained: Record<keyof typeof runs, Drained[]> = { one: [], two: [], plain: [] };
    for (let round = 1; round <= rounds; round++) {
      ceilings.push(await measureCeilingOf(raw, rows, batch));
      drained.one.push(await runs.one(rows));
      drained.two.push(await runs.two(rows));
      drained.plain.push(await runs.plain(rows));
      const last = (of: readonly Drained[]): number => Math.round(of.at(-1)?.rate ?? 0);
      console.log(
        `round ${round}: ceiling ${Math.round(ceilings.at(-1) ?? 0)} rows/s, node ${last(drained.one)}, two nodes ${last(drained.two)}, defaults ${last(drained.plain)}`,
      );
    }
    const ceiling = median(ceilings);
    const one = mediansOf(drained.one);
    const two = mediansOf(drained.two);
    const defaults = mediansOf(drained.plain);
    report.figure("ceiling", ceiling, "rows/s");
    report.figure("node", one.rate, "rows/s");
    report.figure("two_nodes", two.rate, "rows/s");
    report.figure("defaults", defaults.rate, "rows/s");
    report.figure("node_cpu", one.nodeCpu, "us a job");
    report.figure("server_cpu", one.serverCpu, "us a job");
    report.figure("two_nodes_cpu", two.nodeCpu, "us a job, both nodes");
    report.figure("two_nodes_server_cpu", two.serverCpu, "us a job");
    report.figure("defaults_node_cpu", defaults.nodeCpu, "us a job");
    report.figure("defaults_server_cpu", defaults.serverCpu, "us a job");
    report.check("drain_ratio", one.rate / ceiling, "of the ceiling", "atLeast", 0.8);
    report.check("two_nodes_ratio", two.rate / one.rate, "of one node", "atLeast", 0.95);
    report.check("defaults_ratio", defaults.rate / one.rate, "of the tuned node", "atLeast", 0.5);
  },
};

export async function measureCeilingOf(database: TestDatabase, rows: number, batch: number): Promise<number> {
  await emptyTable(database);
  await insertBacklog(database, { rows, poke: false });
  return measureCeiling(database, rows, batch);
}

function mediansOf(runs: readonly Drained[]): Drained {
  return {
    rate: median(runs.map((run) => run.rate)),
    nodeCpu: median(runs.map((run) => run.nodeCpu)),
    serverCpu: median(runs.map((run) => run.serverCpu)),
  };
}
