// Respawn: how long a thread's place stays empty after its thread has died.

import { HEALTHY_AFTER_MS, RESPAWN_FIRST_MS, RESPAWN_MAX_MS } from "./bounds.js";
import type { Member } from "./member.js";

/** Counts one death of the member's thread, and returns the milliseconds until the next start. */
export function countDeath(member: Member, facts: { startedAtMs: number; nowMs: number }): number {
  const hasWorked = member.endedAtMs > facts.startedAtMs;
  const wasHealthy = facts.nowMs - facts.startedAtMs >= HEALTHY_AFTER_MS;
  member.deaths = hasWorked || wasHealthy ? 1 : member.deaths + 1;
  return Math.min(RESPAWN_FIRST_MS * 2 ** (member.deaths - 1), RESPAWN_MAX_MS);
}
