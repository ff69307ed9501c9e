// insert: what creating instances costs the program that creates them. Nodes take no part: none runs.
// Machine:  printed; Postgres and caller share it. fsync and synchronous_commit are on.
// Settings: the client's defaults, on a pool of its own.
// Method:   bulk: `insertMany` of all rows with one call, 2,000 a statement, each statement its own commit; a round each on an emptied table.
//           Single inserts: so many callers, each one `insert` after the other, for the time given; with pokes, and by a client whose
//           `poke` is "none"; the two alternate in slices, and a session listens on the channel as a node would. The same inside the callers'
//           transactions (`tx`), with and without `poke: false`. A warm-up first; medians over the rounds.

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "gen-durable";
import pg from "pg";
import { pokeChannel } from "#core/poke.js";
import type { TestDatabase } from "../test/support/database.js";
import { emptyTable } from "./backlog.js";
import type { Benchmark } from "./bench.js";
import { oneStep } from "./fsms/bench.js";
import { median, type Report } from "./report.js";
import { cpuMicroseconds } from "./usage.js";

export const insert: Benchmark = {
  name: "insert",
  about: "insertMany; single inserts with pokes and without, alone and inside the caller's transaction",
  options: { rows: 100_000, rounds: 5, callers: 8, sliceMs: 1_000 },
  async run(bench, options, report) {
    const { rows = 0, rounds = 0, callers = 0, sliceMs = 0 } = options;
    const database = await bench.createDatabase("inserts");
    await measureBulk(database, { rows, rounds, serverPid: bench.serverPid }, report);
    const listener = await database.session();
    await listener.query(`LISTEN "${pokeChannel("gen_durable")}"`);
    await measureSingle(database, { callers, rounds, sliceMs }, report);
    await measureInTransaction(database, { callers, rounds, sliceMs }, report);
  },
};

async function measureBulk(
  database: TestDatabase,
  { rows, rounds, serverPid }: { rows: number; rounds: number; serverPid: number },
  report: Report,
): Promise<void> {
  const client = createClient({ url: database.url });
  const batch = Array.from({ length: rows }, (_, n) => ({ state: { n } }));
  await client.insertMany(oneStep, batch.slice(0, Math.ceil(rows / 5)));
  const rates: number[] = [];
  const callerCpus: number[] = [];
  const serverCpus: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    await emptyTable(database);
    const callerBefore = cpuMicroseconds(process.pid);
    const serverBefore = cpuMicroseconds(serverPid);
    const startMs = performance.now();
    await client.insertMany(oneStep, batch);
    rates.push(rows / ((performance.now() - startMs) / 1_000));
    callerCpus.push((cpuMicroseconds(process.pid) - callerBefore) / rows);
    serverCpus.push((cpuMicroseconds(serverPid) - serverBefore) / rows);
    console.log(`round ${round}: insertMany ${Math.round(rates.at(-1) ?? 0)} rows/s`);
  }
  await client.close();
  report.figure("caller_cpu", median(callerCpus), "us a row");
  report.figure("server_cpu", median(serverCpus), "us a row");
  report.check("insert_many", median(rates), "rows/s", "atLeast", 60_000);
}

interface Slices {
  callers: number;
  rounds: number;
  sliceMs: number;
}

async function measureSingle(database: TestDatabase, slices: Slices, report: Report): Promise<void> {
  const loud = clientOf(database, slices.callers, "postgres");
  const quiet = clientOf(database, slices.callers, "none");
  const rates = await alternate(slices, {
    with: () => loud.client.insert(oneStep, { state: { n: 0 } }),
    without: () => quiet.client.insert(oneStep, { state: { n: 0 } }),
  });
  await loud.close();
  await quiet.close();
  report.figure("inserts_with_poke", rates.with, `inserts/s, ${slices.callers} callers`);
  report.figure("inserts_without_poke", rates.without, "inserts/s");
  report.check("poke_cost", rates.without / rates.with, "times the cost without", "atMost", 1.1);
}

/** Commits of the callers' own that insert one instance each. */
async function measureInTransaction(database: TestDatabase, slices: Slices, report: Report): Promise<void> {
  const pool = new pg.Pool({ connectionString: database.url, max: slices.callers });
  const client = createClient({ pool });
  const commit = async (poke: boolean): Promise<void> => {
    const tx = await pool.connect();
    await tx.query("BEGIN");
    await client.insert(oneStep, { state: { n: 0 }, tx, poke });
    await tx.query("COMMIT");
    tx.release();
  };
  const rates = await alternate(slices, { with: () => commit(true), without: () => commit(false) });
  await client.close();
  await pool.end();
  report.figure("commits_with_poke", rates.with, `commits/s, ${slices.callers} callers`);
  report.figure("commits_without_poke", rates.without, "commits/s");
  report.figure("in_transaction_poke_cost", rates.without / rates.with, "times the cost without");
}

function clientOf(database: TestDatabase, connections: number, poke: "postgres" | "none") {
  const pool = new pg.Pool({ connectionString: database.url, max: connections });
  const client = createClient({ pool, poke });
  return {
    client,
    close: async (): Promise<void> => {
      await client.close();
      await pool.end();
    },
  };
}

/** Calls a second of two ways to do the same, medians over the rounds. A slice of each in turn, after one of each to warm up. */
async function alternate(
  { callers, rounds, sliceMs }: Slices,
  ways: Record<"with" | "without", () => Promise<unknown>>,
): Promise<Record<"with" | "without", number>> {
  const rates: Record<"with" | "without", number[]> = { with: [], without: [] };
  for (let round = 0; round <= rounds; round++) {
    // Whoever comes first in a round may be met by what the slice before has left to do.
    const order = round % 2 === 0 ? (["with", "without"] as const) : (["without", "with"] as const);
    for (const way of order) {
      const rate = await callFor(sliceMs, callers, ways[way]);
      if (round > 0) rates[way].push(rate);
      await sleep(50);
    }
  }
  return { with: median(rates.with), without: median(rates.without) };
}

async function callFor(sliceMs: number, callers: number, call: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  let calls = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() - startMs < sliceMs) {
        await call();
        calls++;
      }
    }),
  );
  return calls / ((performance.now() - startMs) / 1_000);
}
