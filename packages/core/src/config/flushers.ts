// Flushers: which flusher commits which queue's outcomes.

import type { FlusherSettings } from "../settings.js";

/** Flushers without a stated list: each is a thread and a connection, and more than a few only share one disk. */
export const FLUSHERS_DEFAULT_MAX = 4;

interface FlusherSpec {
  queues: readonly string[] | "all";
  maxBatch: number;
  maxDelayMs: number;
}

/** One flusher a queue, at most four; further queues share, in turn. */
export function defaultFlushers(
  queues: readonly string[],
  spec: Omit<FlusherSpec, "queues">,
): FlusherSettings[] {
  const count = Math.min(queues.length, FLUSHERS_DEFAULT_MAX);
  return Array.from({ length: count }, (_, flusher) => ({
    ...spec,
    queues: queues.filter((_, index) => index % count === flusher),
  }));
}

/**
 * What is wrong with stated flushers: a queue that none covers, a queue that nobody serves. `known` are the queues that
 * the configuration names anywhere: a node may serve some of them only.
 */
export function findFlusherProblem(
  flushers: readonly FlusherSpec[],
  queues: readonly string[],
  known: ReadonlySet<string>,
): string | undefined {
  const uncovered = queues.filter((queue) => !flushers.some((flusher) => covers(flusher, queue)));
  if (uncovered.length > 0)
    return `no flusher covers the queue${uncovered.length > 1 ? "s" : ""} ${quoted(uncovered)}; name it in one, or use queues: "all"`;
  const stray = flushers
    .flatMap((flusher) => (flusher.queues === "all" ? [] : flusher.queues))
    .filter((queue) => !known.has(queue));
  return stray.length === 0
    ? undefined
    : `${quoted(stray)} is no configured queue (queues: ${quoted([...known])})`;
}

/** Stated flushers with the queues of this node; one that none of them goes to is left out. */
export function routeFlushers(
  flushers: readonly FlusherSpec[],
  queues: readonly string[],
): FlusherSettings[] {
  const routed = flushers.map((flusher, index) => ({
    ...flusher,
    queues: queues.filter((queue) => flushers.findIndex((first) => covers(first, queue)) === index),
  }));
  return routed.filter((flusher) => flusher.queues.length > 0);
}

function covers(flusher: FlusherSpec, queue: string): boolean {
  return flusher.queues === "all" || flusher.queues.includes(queue);
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(", ");
}
