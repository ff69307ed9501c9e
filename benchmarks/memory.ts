// memory: what a node keeps resident, the server apart.
// Machine:  printed; what is measured is the node's process, by the kernel's own peak (VmHWM), so Linux only.
// Settings: `--workers 2`, queue concurrency 1,000, one flusher, batches of at most 1,000, far polls, no GC.
// Method:   one node drains all rows. Two more, the second with four further executors, drain a tenth as many each: the difference, a quarter of it
//           an executor. Another one drains instances of two steps whose state is a text of `largeMb`, with default settings.

import type { TestDatabase } from "../test/support/database.js";
import { measureDrain, TUNED, untilDrained } from "./backlog.js";
import type { Bench, Benchmark } from "./bench.js";
import type { Report } from "./report.js";
import { residentMb, residentPeakMb } from "./usage.js";

const FURTHER = 4;

export const memory: Benchmark = {
  name: "memory",
  about: "what a node keeps resident: over a long drain, for each further executor, and with large states",
  options: { rows: 500_000, workers: 2, large: 500, largeMb: 2, largeConcurrency: 10 },
  async run(bench, options, report) {
    const { rows = 0, workers = 0, large = 0, largeMb = 0, largeConcurrency = 0 } = options;
    const peak = await measureRows(bench, "long_drain", { rows, workers });
    report.figure("resident_after", peak.after, "MiB at the end of the drain");
    report.check("drain_peak", peak.peak, `MiB, ${rows} rows, ${workers} executors`, "atMost", 300);
    const tenth = Math.ceil(rows / 10);
    const fewer = await measureRows(bench, "few_executors", { rows: tenth, workers });
    const more = await measureRows(bench, "more_executors", { rows: tenth, workers: workers + FURTHER });
    const each = (more.peak - fewer.peak) / FURTHER;
    report.check("further_executor", each, "MiB an executor", "atMost", 30);
    await measureLarge(bench, { large, largeMb, largeConcurrency, workers }, report);
  },
};

async function measureRows(
  bench: Bench,
  name: string,
  { rows, workers }: { rows: number; workers: number },
): Promise<{ peak: number; after: number }> {
  const database = await bench.createDatabase(name);
  const node = await bench.startNode(database, TUNED, workers);
  await measureDrain(bench, database, [node], { rows });
  const sizes = { peak: residentPeakMb(node.pid), after: residentMb(node.pid) };
  await node.stop();
  return sizes;
}

async function measureLarge(
  bench: Bench,
  options: { large: number; largeMb: number; largeConcurrency: number; workers: number },
  report: Report,
): Promise<void> {
  const { large, largeMb, largeConcurrency, workers } = options;
  const database = await bench.createDatabase("large_states");
  const node = await bench.startNode(database, { queues: { bench: largeConcurrency } }, workers);
  const lastId = await insertLarge(database, large, largeMb);
  await untilDrained(database, lastId);
  const { done } = await database.one<{ done: number }>(
    "SELECT count(*) AS done FROM gen_durable WHERE status = 'done' AND length(state->>'text') = $1",
    [largeMb * 2 ** 20],
  );
  if (done !== large)
    throw new Error(`${done} of ${large} large instances are done:\n${node.stderr.slice(-2_000)}`);
  const peak = residentPeakMb(node.pid);
  await node.stop();
  report.check("large_peak", peak, `MiB, ${large} instances of ${largeMb} MiB`, "atMost", 600);
}

/** Inserts instances of two steps, each with a text of its own that does not compress away. Returns the last id. */
async function insertLarge(database: TestDatabase, rows: number, mb: number): Promise<number> {
  for (let n = 0; n < rows; n++)
    await database.query(
      `INSERT INTO gen_durable (fsm, step, queue, state)
       SELECT 'twoSteps', 'first', 'bench', jsonb_build_object('text', string_agg(md5(random()::text), ''))
       FROM generate_series(1, $1::int)`,
      [(mb * 2 ** 20) / 32],
    );
  const { last } = await database.one<{ last: number }>("SELECT max(id) AS last FROM gen_durable");
  return last;
}
