// Identity: who this node is. The id is new at every boot, so that nothing of an earlier boot can be taken for ours.

import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

export interface NodeIdentity {
  hostname: string;
  /** The machine's boot and process namespace, where they can be known; else empty. */
  bootId: string;
  pid: number;
}

/** A node id: random, short enough to read in a log, long enough never to meet another. */
export function newNodeId(): string {
  return `n${randomBytes(9).toString("base64url")}`;
}

export function readIdentity(): NodeIdentity {
  return { hostname: hostname(), bootId: readBootId(), pid: process.pid };
}

/**
 * Two processes that read the same boot id share a kernel and a process namespace, so each can ask whether the
 * other's pid is alive. Empty where that cannot be known: only the heartbeat then tells.
 */
function readBootId(): string {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return "";
  }
}
