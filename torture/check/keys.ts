import type { Finding, Invariant } from "./invariant.js";
import { isUnder, type Occupancy, readOccupancy } from "./occupancy.js";

/** Exclusive keys: whoever enters finds nobody there. */
export const exclusiveKeys: Invariant = {
  number: 4,
  title: "K = 1: of an unconfigured key at most one row executes",
  check: async (scene) => {
    const { events } = await readOccupancy(scene);
    const inside = new Map<string, Set<number>>();
    const broken: Finding[] = [...scene.watched.exclusive];
    let cases = 0;
    for (const event of events) {
      if (leaves(event) && event.wasKey !== null) inside.get(event.wasKey)?.delete(event.id);
      if (!enters(event) || event.key === null) continue;
      cases++;
      const others = inside.get(event.key) ?? new Set();
      inside.set(event.key, others);
      others.delete(event.id);
      if (others.size > 0)
        broken.push({
          id: event.id,
          text: `claimed under "${event.key}" while ${[...others].join(", ")} executed under it (change ${event.n})`,
        });
      others.add(event.id);
    }
    return { cases, broken };
  },
};

function enters(event: Occupancy): boolean {
  return isUnder(event.status, event.key) && event.shard === null;
}

function leaves(event: Occupancy): boolean {
  return isUnder(event.wasStatus, event.wasKey) && event.wasShard === null;
}
