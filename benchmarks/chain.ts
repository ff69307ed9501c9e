// chain: instances of several steps, with each step claimed anew (requeued) and with run-ahead (inline).
// Machine:  printed; Postgres and node share it. fsync and synchronous_commit are on.
// Settings: one node, queue concurrency 1,000, one flusher, batches of at most 1,000, far polls.
// Method:   a warm-up of both modes, then rounds; in each round both modes drain the same instances in the same database, one
//           after the other and in turn first. Timed from the commit that makes the instances visible to the last one's end, both by the
//           database's clock. Medians over the rounds; every instance's result is looked at.

import { pokeChannel } from "#core/poke.js";
import type { TestDatabase } from "../test/support/database.js";
import type { NodeProcess } from "../test/support/node.js";
import { emptyTable, TUNED, untilDrained } from "./backlog.js";
import type { Bench, Benchmark } from "./bench.js";
import { median } from "./report.js";
import { cpuMicroseconds } from "./usage.js";

export const MODES = ["requeued", "inline"] as const;
type Mode = (typeof MODES)[number];

export const chain: Benchmark = {
  name: "chain",
  about: "instances of several steps, each step claimed anew and with run-ahead",
  options: { steps: 10, instances: 5_000, rounds: 3, batch: 1_000, concurrency: 1_000, workers: 1 },
  async run(bench, options, report) {
    const { steps = 0, instances = 0, rounds = 0, batch = 0, concurrency = 0, workers = 0 } = options;
    const database = await bench.createDatabase("chain");
    const config = {
      ...TUNED,
      queues: { bench: concurrency },
      flushers: [{ queues: "all", maxBatch: batch, maxDelayMs: 20 }],
    };
    const node = await bench.startNode(database, config, workers);
    const measure = (mode: Mode, count: number): Promise<Walked> =>
      measureChain(bench, database, node, { mode, steps, instances: count });
    for (const mode of MODES) await measure(mode, Math.ceil(instances / 5));
    const walked: Record<Mode, Walked[]> = { requeued: [], inline: [] };
    for (let round = 1; round <= rounds; round++) {
      const order = round % 2 === 1 ? MODES : [...MODES].reverse();
      for (const mode of order) walked[mode].push(await measure(mode, instances));
      const said = MODES.map((mode) => `${mode} ${Math.round(walked[mode].at(-1)?.rate ?? 0)} steps/s`);
      console.log(`round ${round}: ${said.join(", ")}`);
    }
    const rateOf = (mode: Mode): number => median(walked[mode].map(({ rate }) => rate));
    for (const mode of MODES) {
      report.figure(mode, rateOf(mode), "steps/s");
      report.figure(`${mode}_node_cpu`, median(walked[mode].map(({ nodeCpu }) => nodeCpu)), "us a step");
      report.figure(
        `${mode}_server_cpu`,
        median(walked[mode].map(({ serverCpu }) => serverCpu)),
        "us a step",
      );
    }
    report.check(`inline_ratio_${steps}`, rateOf("inline") / rateOf("requeued"), "times", "atLeast", 1.7);
  },
};

interface Walked {
  /** Steps a second, from the commit that makes the instances visible to the last one's end, by the database's clock. */
  rate: number;
  /** CPU a step. */
  nodeCpu: number;
  serverCpu: number;
}

async function measureChain(
  bench: Bench,
  database: TestDatabase,
  node: NodeProcess,
  { mode, steps, instances }: { mode: Mode; steps: number; instances: number },
): Promise<Walked> {
  await emptyTable(database);
  const serverBefore = cpuMicroseconds(bench.serverPid);
  const nodeBefore = cpuMicroseconds(node.pid);
  const { startMs, lastId } = await insertInstances(database, { mode, steps, instances });
  await untilDrained(database, lastId);
  if (node.hasExited) throw new Error(`the node ended early:\n${node.stderr}`);
  const serverCpu = cpuMicroseconds(bench.serverPid) - serverBefore;
  const nodeCpu = cpuMicroseconds(node.pid) - nodeBefore;
  const { done, end_ms: endMs } = await database.one<{ done: number; end_ms: number }>(
    `SELECT count(*) AS done, CAST(extract(epoch FROM max(updated_at)) * 1000 AS float8) AS end_ms
     FROM gen_durable WHERE status = 'done' AND result = jsonb_build_object('n', $1::int) AND visit = $1::int + 1`,
    [steps],
  );
  if (done !== instances)
    throw new Error(`${done} of ${instances} ${mode} chains are done as they should be`);
  const total = instances * steps;
  return {
    rate: total / ((endMs - startMs) / 1_000),
    nodeCpu: nodeCpu / total,
    serverCpu: serverCpu / total,
  };
}

/** Inserts in one transaction and pokes with its commit. */
async function insertInstances(
  database: TestDatabase,
  { mode, steps, instances }: { mode: Mode; steps: number; instances: number },
): Promise<{ startMs: number; lastId: number }> {
  const session = await database.session();
  try {
    await session.query("BEGIN");
    await session.query(
      `INSERT INTO gen_durable (fsm, step, queue, state)
       SELECT $1, 'walk', 'bench', jsonb_build_object('n', 1, 'last', $2::int) FROM generate_series(1, $3::int)`,
      [mode, steps, instances],
    );
    await session.query("SELECT pg_notify($1, 'bench')", [pokeChannel("gen_durable")]);
    await session.query("COMMIT");
    const { rows } = await session.query<{ ms: number; last: number }>(
      `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS float8) AS ms, (SELECT max(id) FROM gen_durable) AS last`,
    );
    return { startMs: rows[0]?.ms ?? 0, lastId: rows[0]?.last ?? 0 };
  } finally {
    await session.end();
  }
}
