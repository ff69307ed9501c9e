// peers: graphile-worker, pg-boss, DBOS and BullMQ beside gen-durable, in one run.
// Machine:  printed; all servers, workers and callers share it. One Postgres for all, fsync and synchronous_commit on; for BullMQ, where
//           `redis-server` is installed, one Redis with `appendfsync always` and one with `everysec`.
// Settings: each as its own docs advise for throughput; they stand in peers/engines/, a file an engine. The engines are installed into
//           benchmarks/peers/node_modules from a lock file of their own when this runs for the first time.
// Method:   rounds; in each, every workload goes through all engines, forwards in one round and backwards in the next, each with fresh
//           processes and a fresh store. Medians over the rounds. Drain: jobs are inserted in bulk by a process that ends; VACUUM ANALYZE,
//           CHECKPOINT; then a worker process starts, timed from its first handler's beginning until the store shows nothing left; start-up is
//           said apart. Chain: the same with five steps, each one a job or a step of a workflow. Fan-out: from the call that starts the parents
//           until nothing is left. Latency: single inserts by a second process, by schedule; `done` is heard by a third connection, after the
//           commit. DBOS gets a tenth of the jobs and chains. CPU is the worker's process, and the server's with all its children.

import type { Bench, Benchmark } from "./bench.js";
import { ENGINES, type PeerEngine } from "./peers/engines.js";
import { installPeers } from "./peers/install.js";
import { Redis } from "./peers/redis.js";
import { type Figures, runChain, runDrain, runFanOut, runLatency, type Sizes } from "./peers/run.js";
import { openPostgres, openRedis, type Store } from "./peers/store.js";
import { printTable } from "./peers/table.js";
import { median, type Report } from "./report.js";

export const peers: Benchmark = {
  name: "peers",
  about:
    "graphile-worker, pg-boss, DBOS and BullMQ beside gen-durable; 0 jobs, chains, parents or inserts leave a workload out",
  options: {
    ...{ rounds: 3, jobs: 100_000, chains: 2_000, parents: 5, children: 1_000, inserts: 100, spacingMs: 120 },
    ...{ graphile: 1, pgboss: 1, dbos: 1, bullmq: 1 },
  },
  async run(bench, options, report) {
    const {
      rounds = 0,
      jobs = 0,
      chains = 0,
      parents = 0,
      children = 0,
      inserts = 0,
      spacingMs = 0,
    } = options;
    const sizes = { jobs, chains, parents, children, inserts, spacingMs };
    installPeers();
    const redisVersion = Redis.version();
    if (redisVersion === undefined) console.log("no redis-server is installed: BullMQ is left out");
    else console.log(`Redis ${redisVersion}`);
    const engines = ENGINES.filter(
      ({ name, store }) =>
        (store === "postgres" || redisVersion !== undefined) &&
        (name.startsWith("gen-durable") || options[optionOf(name)] === 1),
    );
    const servers = new Map<string, Redis>();
    const all = new Map(engines.map((engine) => [engine, [] as Figures[]]));
    try {
      for (const { store } of engines)
        if (store !== "postgres" && !servers.has(store))
          servers.set(store, await Redis.start(store === "redis always" ? "always" : "everysec"));
      for (let round = 1; round <= rounds; round++)
        await runRound({ bench, servers, sizes, round, engines }, (engine, figures) =>
          all.get(engine)?.push(figures),
        );
    } finally {
      for (const redis of servers.values()) await redis.stop();
    }
    const rows = engines
      .map((engine) => ({ engine, figures: mediansOf(all.get(engine) ?? []) }))
      .filter(({ figures }) => Object.keys(figures).length > 0);
    printTable(rows);
    check(new Map(rows.map(({ engine, figures }) => [engine.name, figures])), report);
  },
};

interface Round {
  bench: Bench;
  servers: ReadonlyMap<string, Redis>;
  sizes: Sizes;
  round: number;
  engines: readonly PeerEngine[];
}

async function runRound(
  { bench, servers, sizes, round, engines }: Round,
  note: (engine: PeerEngine, figures: Figures) => void,
): Promise<void> {
  const workloads = [
    { name: "drain", size: sizes.jobs, run: runDrain },
    { name: "chain", size: sizes.chains, run: runChain },
    { name: "fanOut", size: sizes.parents, run: runFanOut },
    { name: "latency", size: sizes.inserts, run: runLatency },
  ] as const;
  const order = round % 2 === 1 ? engines : engines.toReversed();
  for (const { name, run } of workloads.filter(({ size }) => size > 0))
    for (const engine of order.filter(({ runs }) => runs[name])) {
      const store = await openStore(
        bench,
        servers,
        engine,
        `${optionOf(engine.name)}_${name}_${round}`.toLowerCase(),
      );
      try {
        const figures = await run(engine, store, sizes);
        note(engine, figures);
        const text = Object.entries(figures).map(
          ([figure, value]) => `${figure} ${Math.round(value * 10) / 10}`,
        );
        console.log(`round ${round}: ${engine.name}: ${name}: ${text.join(", ")}`);
      } catch (error) {
        // One engine that fails here says nothing about the others.
        const text = error instanceof Error ? error.message : String(error);
        console.log(`round ${round}: ${engine.name}: ${name}: failed: ${text.split("\n")[0]}`);
      } finally {
        await store.close();
      }
    }
}

function openStore(
  bench: Bench,
  servers: ReadonlyMap<string, Redis>,
  engine: PeerEngine,
  name: string,
): Promise<Store> {
  if (engine.store === "postgres") return openPostgres(bench, engine, name);
  const redis = servers.get(engine.store);
  if (redis === undefined) throw new Error(`no server for ${engine.name}`);
  return openRedis(redis);
}

/** Of each figure the median over the runs that have it. */
function mediansOf(runs: readonly Figures[]): Figures {
  const names = new Set(runs.flatMap((figures) => Object.keys(figures)));
  return Object.fromEntries(
    [...names].map((name) => [
      name,
      median(runs.flatMap((figures) => (figures[name] === undefined ? [] : [figures[name]]))),
    ]),
  );
}

/** Ours against each of theirs, where both were measured. */
function check(all: ReadonlyMap<string, Figures>, report: Report): void {
  const ours = all.get("gen-durable") ?? {};
  const compare = (name: string, figure: string, peer: string, target: number, own = ours): void => {
    const mine = own[figure];
    const theirs = all.get(peer)?.[figure];
    if (mine === undefined || theirs === undefined) return;
    const isTime = figure.endsWith("Ms");
    report.check(name, mine / theirs, `of ${peer}'s`, isTime ? "atMost" : "atLeast", target);
  };
  compare("drain_to_graphile_worker", "drainRate", "graphile-worker", 1);
  compare("drain_to_pg_boss", "drainRate", "pg-boss", 1);
  compare("chain_to_pg_boss", "chainRate", "pg-boss", 2);
  compare("chain_to_dbos", "chainRate", "DBOS", 20);
  compare("inline_chain_to_pg_boss", "chainRate", "pg-boss", 3, all.get("gen-durable, inline") ?? {});
  compare("fan_out_to_bullmq", "fanOutRate", "BullMQ, AOF always", 3);
  compare("fan_out_to_pg_boss", "fanOutRate", "pg-boss", 10);
  for (const [name, peer] of [
    ["graphile_worker", "graphile-worker"],
    ["pg_boss", "pg-boss"],
  ] as const) {
    compare(`start_to_${name}`, "startMs", peer, 1);
    compare(`done_to_${name}`, "doneMs", peer, 1);
  }
}

/** The option that leaves an engine out, and a name that Postgres takes. */
function optionOf(name: string): string {
  if (name === "graphile-worker") return "graphile";
  if (name.startsWith("BullMQ")) return "bullmq";
  return name.toLowerCase().replaceAll(/\W+/g, name === "pg-boss" ? "" : "_");
}
