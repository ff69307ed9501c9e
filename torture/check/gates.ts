import type { Finding, Invariant } from "./invariant.js";
import { isUnder, readOccupancy } from "./occupancy.js";

/** A pick may have read the limit this long before its claim was recorded. */
const LIMIT_SLACK_MS = 3_000;

interface LimitChange {
  atMs: number;
  name: string;
  capacity: number;
}

/** Gates: counted by who executes, and compared with the counters in every look. */
export const gates: Invariant = {
  number: 5,
  title: "Gates: never more than the limit execute, and the counters say so exactly",
  check: async (scene) => {
    const { events } = await readOccupancy(scene);
    const changes = await scene.query<LimitChange & Record<string, unknown>>(
      `SELECT (extract(epoch FROM at) * 1000)::float8 AS "atMs", name, capacity FROM torture.limits WHERE kind = 'conc' ORDER BY n`,
    );
    const inside = new Map<string, Set<number>>();
    const broken: Finding[] = [...scene.watched.gates];
    let cases = 0;
    for (const event of events) {
      if (isUnder(event.wasStatus, event.wasKey) && event.wasShard !== null && event.wasShard >= 0)
        inside.get(event.wasKey ?? "")?.delete(event.id);
      const { key, shard } = event;
      if (key === null || !isUnder(event.status, key) || shard === null || shard < 0) continue;
      const holders = inside.get(key) ?? new Set();
      inside.set(key, holders);
      // A slot that is kept over a transition is no admission.
      const isAdmission = !(
        event.wasStatus === "executing" &&
        event.wasKey === key &&
        event.wasShard === shard
      );
      holders.add(event.id);
      if (!isAdmission) continue;
      cases++;
      const limit = limitAt(changes, key.split(":")[0] ?? key, event.atMs);
      if (holders.size > limit)
        broken.push({
          id: event.id,
          text: `admitted as number ${holders.size} under "${key}", whose limit was ${limit} (change ${event.n})`,
        });
    }
    return { cases, broken };
  },
};

/** The highest limit that may have been read for a claim at this moment. */
function limitAt(changes: readonly LimitChange[], name: string, atMs: number): number {
  let limit = 0;
  let current = 0;
  for (const change of changes) {
    if (change.name !== name || change.atMs > atMs) continue;
    if (change.atMs >= atMs - LIMIT_SLACK_MS) limit = Math.max(limit, current, change.capacity);
    current = change.capacity;
  }
  return Math.max(limit, current);
}
