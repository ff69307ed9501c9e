// Connections: how many a node opens at most, so that its operator can add nodes up against the server's max_connections
// (docs/scaling.md). test/operate/connections.test.ts holds running nodes to it.

import type { NodeSettings } from "../settings.js";

/** Queues share picker connections: a pick takes milliseconds, and each connection is a process of the server's. */
export const PICKER_CONNECTIONS_MAX = 4;

export interface NodeConnections {
  /** The main thread's heartbeat. */
  node: number;
  /** Leases, timers, marks. */
  keeper: number;
  /** Reaper and collector. */
  sweeper: number;
  /** LISTEN. */
  listener: number;
  /** Claims. */
  picker: number;
  /** Commits, one connection each. */
  flusher: number;
}

type Shape = Pick<NodeSettings, "queues" | "flushers" | "reaper" | "gc" | "poke">;

/** The most that a node of these settings has open at once, by role. What steps open is theirs. */
export function connectionsOf({ queues, flushers, reaper, gc, poke }: Shape): NodeConnections {
  return {
    node: 1,
    keeper: 1,
    sweeper: reaper === false && gc === false ? 0 : 1,
    listener: poke === "postgres" ? 1 : 0,
    picker: Math.min(Object.keys(queues).length, PICKER_CONNECTIONS_MAX),
    flusher: flushers.length,
  };
}

export function totalOf(connections: NodeConnections): number {
  return Object.values(connections).reduce((sum, count) => sum + count, 0);
}
