import { count, type Invariant } from "./invariant.js";

/** Deadlocks: the server says so. All transactions of a run are the engine's, or touch no row of its tables. */
export const deadlocks: Invariant = {
  number: 11,
  title: "Lock order: the engine's own statements do not deadlock",
  check: async (scene) => ({
    cases: await count(
      scene,
      "SELECT count(*) AS n FROM (SELECT FROM torture.history GROUP BY xid HAVING count(DISTINCT id) > 1) many",
    ),
    broken: scene.serverLog
      .split("\n")
      .flatMap((line, at, lines) =>
        line.includes("deadlock detected") ? [{ id: null, text: lines.slice(at, at + 8).join("\n") }] : [],
      ),
  }),
};
