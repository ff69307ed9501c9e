// Settings: the configurations that nodes are started with. A generation is drawn from the seed; a change of configuration
// is the next one, so limits go up and down, shards, flushers and queue concurrency change between restarts.

import { randomOf } from "./seed.js";

/** Short enough for a run of a minute; a lease is shorter than a node's silence, so that leases run out by themselves. */
export const LEASE_TTL_MS = 5_000;
export const NODE_TIMEOUT_MS = 10_000;

/** Steps at most so many bytes; the poison is larger. */
const PAYLOAD_BYTES_MAX = 65_536;

/** Rates stay as they are, so that one bound holds for the whole run; low, so that they bind on a slow machine too. */
export const RATES = {
  ahead: { allowed: 30, period: 1_000, burst: 10 },
  burst: { allowed: 20, period: 1_000, burst: 10 },
  part: { allowed: 8, period: 1_000, burst: 4, shards: 2 },
};

/** The configuration of one generation, without machines and database. */
export function configOf(seed: number, generation: number): Record<string, unknown> {
  const random = randomOf(seed, "config", generation);
  const flushers = random.pick([
    undefined,
    [{ queues: "all", maxBatch: 100, maxDelayMs: 5 }],
    [
      { queues: ["main"], maxBatch: 20, maxDelayMs: 2 },
      { queues: "all", maxBatch: 200, maxDelayMs: 20 },
    ],
  ]);
  return {
    queues: {
      main: random.between(60, 160),
      side: random.between(30, 60),
      bulk: random.between(30, 100),
    },
    ...(flushers === undefined ? {} : { flushers }),
    rateLimits: RATES,
    concurrencyLimits: {
      gate: { limit: random.between(2, 6), shards: random.between(1, 3) },
      wide: { limit: random.between(6, 16), shards: random.between(1, 4) },
    },
    prefetch: random.pick(["auto", 0, 30]),
    leaseTtlMs: LEASE_TTL_MS,
    heartbeatIntervalMs: 1_000,
    nodeTimeoutMs: NODE_TIMEOUT_MS,
    reaper: { intervalMs: 500 },
    gc: { intervalMs: 2_000, retentionMs: 3_600_000 },
    pollIntervalMs: 250,
    maxPollIntervalMs: 500,
    drainTimeoutMs: 2_000,
    maxPayloadBytes: PAYLOAD_BYTES_MAX,
    workerHeapMb: 96,
  };
}
