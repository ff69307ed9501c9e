// Events: what a node publishes on node:diagnostics_channel, one channel an event: `gen-durable:<name>`.
// Sent by the threads through the coordinator, published in the main thread (packages/cli/src/node/events.ts).

export const EVENTS = {
  /** A step has committed: instance, fsm, version, step, attempt, queue, kind, durationMs. Sent while somebody subscribes. */
  step: "step",
  /** A flush has ended: flusher, durationMs, rows, committed, stale, deferred, transactions. */
  flush: "flush",
  /** An outcome was refused, because its row belongs to somebody else: instance, fsm, step, kind. */
  stale: "stale",
  /** An outcome that could not be stored; its instance has failed: id, fsm, step, error. */
  unstorable: "unstorable",
  /** A pick has ended: queue, wanted, claimed. */
  pick: "pick",
  /** Rows went back because their lease ran out or their node died: count, cancelled. */
  reap: "reap",
  /** Dead nodes were taken off the list: nodes, count (rows that went back). */
  reclaim: "reclaim",
  /** Awaits have timed out: count. */
  timeouts: "timeouts",
  /** The collector has swept: rows; buckets, gates (counters and keys that went), healed, added. */
  sweep: "sweep",
  /** A drain has handed back what had not started: queue, released, inFlight. One a queue. */
  drain: "drain",
  /** A race for a constraint was lost and is tried again: queue. */
  contended: "contended",
  /** A limit has held rows back: queue, kind (conc, rate), key, wanted, granted. */
  throttled: "throttled",
  /** A row names a rate limit that nobody has configured: queue, name, key, fsm, step. Once for these four. */
  unknown: "unknown",
  /** The lease heartbeat: extended, locked, lost. */
  heartbeat: "heartbeat",
  /** Buffered inserts were not written: rows, lost (refused for good; else they wait and are tried again), error. In the client's process. */
  inserts: "inserts",
} as const;

export type EventName = keyof typeof EVENTS;
