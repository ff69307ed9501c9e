// chain: instances of several steps, with each step claimed anew (requeued) and with run-ahead (inline).
// Machine:  printed; Postgres and node share it. fsync and synchronous_commit are on.
// Settings: one node, queue concurrency 1,000, one flusher, batches of at most 1,000, far polls.
// Method:   a warm-up of both modes, then rounds; in each round both modes drain the same instances in the same database, one
//           after the other and in turn first. Timed from the commit that makes the instances visible to the last one's end, both by the
//           database's clock. Medians over the rounds; every instance's result is looked at.

import { pokeChannel } from "#core/poke.js";
import type { TestDatabase } from "../test/support/database.js";
import { emptyTable, TUNED, untilDrained } from "./backlog.js";
import type { Benchmark } from "./bench.js";
import { median } from "./report.js";

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
    for (const mode of MODES)
      await measureChain(database, { mode, steps, instances: Math.ceil(instances / 5) });
    const rates: Record<Mode, number[]> = { requeued: [], inline: [] };
    for (let round = 1; round <= rounds; round++) {
      const order = round % 2 === 1 ? MODES : [...MODES].reverse();
      for (const mode of order) rates[mode].push(await measureChain(database, { mode, steps, instances }));
      const said = MODES.map((mode) => `${mode} ${Math.round(rates[mode].at(-1) ?? 0)} steps/s`);
      console.log(`round ${round}: ${said.join(", ")}`);
    }
    if (node.hasExited) throw new Error(`the node ended early:\n${node.stderr}`);
    for (const mode of MODES) report.figure(mode, median(rates[mode]), "steps/s");
    report.check(
      `inline_ratio_${steps}`,
      median(rates.inline) / median(rates.requeued),
      "times",
      "atLeast",
      1.7,
    );
  },
};

/** Steps a second, from the commit that makes the instances visible to the last one's end. */
async function measureChain(
  database: TestDatabase,
  { mode, steps, instances }: { mode: Mode; steps: number; instances: number },
): Promise<number> {
  await emptyTable(database);
  const { startMs, lastId } = await insertInstances(database, { mode, steps, instances });
  await untilDrained(database, lastId);
  const { done, end_ms: endMs } = await database.one<{ done: number; end_ms: number }>(
    `SELECT count(*) AS done, CAST(extract(epoch FROM max(updated_at)) * 1000 AS float8) AS end_ms
     FROM gen_durable WHERE status = 'done' AND result = jsonb_build_object('n', $1::int) AND visit = $1::int + 1`,
    [steps],
  );
  if (done !== instances)
    throw new Error(`${done} of ${instances} ${mode} chains are done as they should be`);
  return (instances * steps) / ((endMs - startMs) / 1_000);
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
