import type { Invariant } from "./invariant.js";
import { count } from "./invariant.js";

/** Not one of the twelve: every instance ends as its steps say, and no node has broken a promise by its own account. */
export const results: Invariant = {
  number: 0,
  title: "Results: every instance ends with what its steps make of it",
  check: async (scene) => ({
    cases: await count(scene, "SELECT count(*) AS n FROM torture.acks WHERE kind = 'ended'"),
    broken: [
      ...scene.mismatches.map(({ id, text }) => ({ id, text })),
      ...scene.brokenLogs.map((text) => ({ id: null, text })),
    ],
  }),
};
