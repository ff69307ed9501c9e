// Run: one engine, one workload, once: fresh processes and a fresh store.

import { until } from "../../test/support/until.js";
import { cpuMicroseconds } from "../usage.js";
import { nowMs } from "../watchDone.js";
import type { PeerEngine } from "./engines.js";
import { PeerProcess } from "./process.js";
import type { Store } from "./store.js";

const RUN_TIMEOUT_MS = 200_000;
const LATENCY_TIMEOUT_MS = 30_000;
/** Between two looks at the store, once the handlers have ended, or from the beginning where nobody counts them. */
const LOOK_MS = 10;
export const STEPS = 5;
const WARM_UP_INSERTS = 20;
const CLOSE_SPACING_MS = 20;

export interface Sizes {
  jobs: number;
  chains: number;
  parents: number;
  children: number;
  inserts: number;
  spacingMs: number;
}

/** Figures by name; each has its unit in table.ts. */
export type Figures = Record<string, number>;

export async function runDrain(engine: PeerEngine, store: Store, { jobs }: Sizes): Promise<Figures> {
  const count = Math.ceil(jobs * engine.share);
  const insertRate = await bulk(engine, store, "drain", "one", count);
  const { rate, startupMs, nodeCpu, serverCpu, residentMb } = await work(engine, store, "drain", count);
  return { insertRate, drainRate: rate, startupMs, nodeCpu, serverCpu, residentMb };
}

export async function runChain(engine: PeerEngine, store: Store, { chains }: Sizes): Promise<Figures> {
  const count = Math.ceil(chains * engine.share);
  await bulk(engine, store, "chain", "chain", count);
  const { rate } = await work(engine, store, "chain", count);
  return { chainRate: rate * STEPS };
}

export async function runFanOut(
  engine: PeerEngine,
  store: Store,
  { parents, children }: Sizes,
): Promise<Figures> {
  const worker = await PeerProcess.start(engine, store.url, {
    workload: "fanOut",
    steps: STEPS,
    ...engine.options,
  });
  try {
    await worker.ask("setUp", {});
    await worker.ask("start", { workload: "fanOut" });
    await store.settle();
    const startMs = nowMs();
    await worker.ask("fanOut", { parents, children });
    await untilEnded(engine, store, worker, parents);
    return { fanOutRate: (parents * children) / ((nowMs() - startMs) / 1_000) };
  } finally {
    await worker.stop();
  }
}

export async function runLatency(
  engine: PeerEngine,
  store: Store,
  { inserts, spacingMs }: Sizes,
): Promise<Figures> {
  const options = { workload: "latency", steps: STEPS, ...engine.options };
  const producer = await PeerProcess.start(engine, store.url, options);
  const worker = await PeerProcess.start(engine, store.url, options);
  try {
    await producer.ask("setUp", {});
    await worker.ask("start", { workload: "latency" });
    const ended = new Map<number, number>();
    await store.watchEnds(ended);
    const measure = async (count: number, from: number, everyMs: number) => {
      const { calledMs } = await producer.ask("enqueue", { count, from, spacingMs: everyMs });
      await until(() => calledMs.every(([n]) => ended.has(n)), {
        timeoutMs: LATENCY_TIMEOUT_MS,
        describe: `${engine.name} has ended what it was given`,
      });
      const starts = new Map((await worker.ask("starts", {})).starts);
      return calledMs.map(([n, atMs]) => ({
        start: (starts.get(n) ?? Number.NaN) - atMs,
        done: (ended.get(n) ?? Number.NaN) - atMs,
      }));
    };
    await measure(WARM_UP_INSERTS, 1_000_000, spacingMs);
    const idle = await measure(inserts, 2_000_000, spacingMs);
    const close = await measure(inserts, 3_000_000, CLOSE_SPACING_MS);
    return {
      startMs: middle(idle.map(({ start }) => start)),
      doneMs: middle(idle.map(({ done }) => done)),
      closeStartMs: middle(close.map(({ start }) => start)),
      closeDoneMs: middle(close.map(({ done }) => done)),
    };
  } finally {
    await producer.stop();
    await worker.stop();
  }
}

/** Inserts with a process of its own; jobs a second. */
async function bulk(
  engine: PeerEngine,
  store: Store,
  workload: "drain" | "chain",
  kind: "one" | "chain",
  count: number,
): Promise<number> {
  const producer = await PeerProcess.start(engine, store.url, { workload, steps: STEPS, ...engine.options });
  try {
    await producer.ask("setUp", {});
    const startMs = nowMs();
    await producer.ask("bulk", { count, kind });
    return count / ((nowMs() - startMs) / 1_000);
  } finally {
    await producer.stop();
    await store.settle();
  }
}

/** Starts a worker over what is there; units a second from the first handler's beginning until nothing is left. */
async function work(engine: PeerEngine, store: Store, workload: "drain" | "chain", count: number) {
  const worker = await PeerProcess.start(engine, store.url, { workload, steps: STEPS, ...engine.options });
  try {
    const serverBefore = cpuMicroseconds(store.pid);
    const { atMs } = await worker.ask("start", { workload });
    await untilEnded(engine, store, worker, count);
    const endMs = nowMs();
    const serverCpu = (cpuMicroseconds(store.pid) - serverBefore) / count;
    const { cpuUs, residentMb, firstMs } = await worker.ask("usage", {});
    const beganMs = firstMs ?? atMs;
    const rate = count / ((endMs - beganMs) / 1_000);
    return { rate, startupMs: beganMs - atMs, nodeCpu: cpuUs / count, serverCpu, residentMb };
  } finally {
    await worker.stop();
  }
}

async function untilEnded(
  engine: PeerEngine,
  store: Store,
  worker: PeerProcess,
  count: number,
): Promise<void> {
  const options = { timeoutMs: RUN_TIMEOUT_MS, describe: `${engine.name} has ended everything` };
  if (engine.counts) await until(() => worker.ended >= count, { ...options, everyMs: LOOK_MS });
  await until(async () => (await store.countLeft()) === 0, { ...options, everyMs: LOOK_MS });
}

function middle(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)] ?? Number.NaN;
}
