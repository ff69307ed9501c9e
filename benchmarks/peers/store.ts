// Store: where one engine keeps its jobs for one run: a database of its own on the benchmark's Postgres, or an emptied Redis.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { TestDatabase } from "../../test/support/database.js";
import type { Bench } from "../bench.js";
import { nowMs } from "../watchDone.js";
import type { PeerEngine } from "./engines.js";
import type { Redis } from "./redis.js";

export interface Store {
  url: string;
  /** Of the server's processes. */
  pid: number;
  /** 0 when nothing is left to do. */
  countLeft(): Promise<number>;
  /** Nothing that is still to be written is left to the run. */
  settle(): Promise<void>;
  /** Tells of each job `one` whose end is durable: its number and when that was seen. */
  watchEnds(ended: Map<number, number>): Promise<void>;
  close(): Promise<void>;
}

/** What engines/bullmq.mjs exports for it. */
interface BullMq {
  countLeft(url: string): Promise<number>;
  watchEnds(url: string, ended: (n: number) => void): Promise<{ close(): Promise<void> }>;
}

export async function openPostgres(bench: Bench, engine: PeerEngine, name: string): Promise<Store> {
  const database = await bench.createEmptyDatabase(name);
  return {
    url: database.url,
    pid: bench.serverPid,
    countLeft: async () => (await database.one<{ count: number }>(engine.leftSql)).count,
    settle: async () => {
      await database.query("VACUUM ANALYZE");
      await database.query("CHECKPOINT");
    },
    watchEnds: (ended) => watchTrigger(database, engine, ended),
    close: () => bench.dropDatabase(database),
  };
}

export async function openRedis(redis: Redis): Promise<Store> {
  // Installed apart from the project, so no import that a compiler could follow.
  const file = pathToFileURL(resolve("benchmarks/peers/engines/bullmq.mjs")).href;
  const bullmq = (await import(file)) as BullMq;
  let watcher: { close(): Promise<void> } | undefined;
  return {
    url: redis.url,
    pid: redis.pid,
    countLeft: () => bullmq.countLeft(redis.url),
    settle: async () => undefined,
    watchEnds: async (ended) => {
      watcher = await bullmq.watchEnds(redis.url, (n) => ended.set(n, nowMs()));
    },
    close: async () => watcher?.close(),
  };
}

async function watchTrigger(
  database: TestDatabase,
  engine: PeerEngine,
  ended: Map<number, number>,
): Promise<void> {
  await database.query(engine.triggerSql);
  const session = await database.session();
  session.on("notification", ({ payload }) => ended.set(Number(payload), nowMs()));
  await session.query("LISTEN bench_done");
}
