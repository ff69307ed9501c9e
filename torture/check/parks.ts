import { count, findings, type Invariant } from "./invariant.js";

/** Parks: in no look, and not at the end, does an instance sleep beside a signal that it has not seen. */
export const parks: Invariant = {
  number: 7,
  title: "Awaits: no instance is parked beside a matching signal that it has not seen",
  check: async (scene) => ({
    cases: await count(
      scene,
      "SELECT count(*) AS n FROM torture.history WHERE status = 'awaiting_signal' AND was_status = 'executing'",
    ),
    broken: [
      ...scene.watched.parks,
      // A signal that was handed over is handed over again when the visit runs again.
      ...(await findings(
        scene,
        `SELECT DISTINCT a.id, 'run ' || b.run || ' of visit ' || b.visit || ' was handed ' || b.awaited::text
                || ', an earlier one ' || a.awaited::text AS text
           FROM torture.runs a
           JOIN torture.runs b ON b.id = a.id AND b.visit = a.visit AND b.attempt > a.attempt
          WHERE a.kind = 'step' AND b.kind = 'step' AND NOT a.awaited <@ b.awaited AND b.seen_visit = b.visit`,
      )),
    ],
  }),
};
