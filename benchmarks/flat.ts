// flat: whether the drain keeps its rate where tables grow, old row versions cannot go, and time passes.
// Machine:  printed; Postgres and nodes share it. fsync, synchronous_commit and autovacuum are on.
// Settings: one node, queue concurrency 1,000, one flusher, batches of at most 1,000, far polls. No GC, but in the soak: every second, of what ended
//           more than ten seconds ago.
// Method:   Snapshot: a session opens a REPEATABLE READ transaction and reads; then the rows are inserted and drained. The rate of the last fifth of
//           all ends, over that of the first fifth. Terminal: the drain of `drainRows` beside an empty table and beside `terminalRows` that have ended, by two
//           databases and nodes in turn; medians over the rounds. Soak: a backlog of `backlogRows` is kept up by chunks that come in as fast as earlier
//           ones end, for `soakSeconds`; the median rate of the last fifth of all chunks, over that of the first. A part with 0 rows or seconds is left out.

import { emptyTable, insertBacklog, measureDrain, TUNED, untilDrained } from "./backlog.js";
import type { Bench, Benchmark } from "./bench.js";
import { median, type Report } from "./report.js";
import { measureSoak } from "./soak.js";

/** Rows a statement of those that have ended already. */
const TERMINAL_ROWS = 250_000;
const SHARE = 0.8;

export const flat: Benchmark = {
  name: "flat",
  about: "the drain under a snapshot held open, beside millions of ended instances, and for many minutes",
  options: {
    snapshotRows: 500_000,
    terminalRows: 5_000_000,
    drainRows: 200_000,
    rounds: 3,
    soakSeconds: 600,
    backlogRows: 50_000,
    workers: 1,
  },
  async run(bench, options, report) {
    const { snapshotRows = 0, terminalRows = 0, soakSeconds = 0, backlogRows = 0, workers = 0 } = options;
    const { drainRows = 0, rounds = 0 } = options;
    if (snapshotRows > 0) await measureSnapshot(bench, { rows: snapshotRows, workers }, report);
    if (terminalRows > 0) await measureTerminal(bench, { terminalRows, drainRows, rounds, workers }, report);
    if (soakSeconds > 0) await measureSoak(bench, { seconds: soakSeconds, backlogRows, workers }, report);
  },
};

async function measureSnapshot(
  bench: Bench,
  { rows, workers }: { rows: number; workers: number },
  report: Report,
): Promise<void> {
  const database = await bench.createDatabase("held_open");
  const node = await bench.startNode(database, TUNED, workers);
  await measureDrain(bench, database, [node], { rows: Math.ceil(rows / 10) });
  await emptyTable(database);
  const holder = await database.session();
  await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await holder.query("SELECT count(*) FROM gen_durable");
  const { lastId } = await insertBacklog(database, { rows });
  await untilDrained(database, lastId);
  const fifths = await database.query<{ seconds: number }>(
    `SELECT CAST(extract(epoch FROM max(updated_at) - min(updated_at)) AS float8) AS seconds
     FROM (SELECT updated_at, ntile(5) OVER (ORDER BY updated_at) AS fifth FROM gen_durable WHERE status = 'done') AS ended
     GROUP BY fifth ORDER BY fifth`,
  );
  await holder.query("ROLLBACK");
  await node.stop();
  const rates = fifths.map(({ seconds }) => rows / 5 / seconds);
  report.figure("snapshot_first_fifth", rates[0] ?? 0, "rows/s");
  report.figure("snapshot_last_fifth", rates[4] ?? 0, "rows/s");
  report.check(
    "snapshot_ratio",
    (rates[4] ?? 0) / (rates[0] ?? 1),
    "of the rate at the start",
    "atLeast",
    SHARE,
  );
}

async function measureTerminal(
  bench: Bench,
  options: { terminalRows: number; drainRows: number; rounds: number; workers: number },
  report: Report,
): Promise<void> {
  const { terminalRows, drainRows, rounds, workers } = options;
  const small = await bench.createDatabase("small_table");
  const large = await bench.createDatabase("large_table");
  for (let left = terminalRows; left > 0; left -= TERMINAL_ROWS)
    await large.query(
      `INSERT INTO gen_durable (fsm, step, queue, state, status, result, updated_at)
       SELECT 'oneStep', 'only', 'bench', '{"n":0}', 'done', 'null', now() - n * interval '1 ms' FROM generate_series(1, $1::int) AS n`,
      [Math.min(left, TERMINAL_ROWS)],
    );
  await large.query("VACUUM ANALYZE gen_durable");
  const { last } = await large.one<{ last: number }>("SELECT max(id) AS last FROM gen_durable");
  const sides = [
    { database: small, node: await bench.startNode(small, TUNED, workers), rates: [] as number[] },
    { database: large, node: await bench.startNode(large, TUNED, workers), rates: [] as number[] },
  ];
  for (let round = 0; round <= rounds; round++) {
    for (const { database, node, rates } of sides) {
      // Each drain leaves its own rows ended; they go, those of before stay.
      await database.query("DELETE FROM gen_durable WHERE id > $1", [database === large ? last : 0]);
      await database.query("VACUUM ANALYZE gen_durable");
      await database.query("CHECKPOINT");
      const { startMs, lastId } = await insertBacklog(database, { rows: drainRows });
      await untilDrained(database, lastId);
      const { end_ms: endMs } = await database.one<{ end_ms: number }>(
        "SELECT CAST(extract(epoch FROM max(updated_at)) * 1000 AS float8) AS end_ms FROM gen_durable WHERE id > $1",
        [lastId - drainRows],
      );
      if (node.hasExited) throw new Error(`the node ended early:\n${node.stderr.slice(-4_000)}`);
      if (round > 0) rates.push(drainRows / ((endMs - startMs) / 1_000));
    }
    if (round > 0)
      console.log(
        `round ${round}: ${sides.map(({ rates }) => Math.round(rates.at(-1) ?? 0)).join(" and ")} rows/s`,
      );
  }
  const [without = 0, beside = 0] = sides.map(({ rates }) => median(rates));
  for (const { node } of sides) await node.stop();
  report.figure("drain_alone", without, "rows/s");
  report.figure("drain_beside_terminal", beside, `rows/s, beside ${terminalRows} ended instances`);
  report.check("terminal_ratio", beside / without, "of the rate without", "atLeast", SHARE);
}
