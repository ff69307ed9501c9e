import { count, findings, type Invariant } from "./invariant.js";

/** Each run read its own row when it began, in a session of its own: what it was handed must have been committed by then. */
export const commitBeforeProceed: Invariant = {
  number: 2,
  title: "Commit before proceed: no step runs before its predecessor's state is committed",
  check: async (scene) => ({
    cases: await count(scene, "SELECT count(*) AS n FROM torture.runs WHERE visit > 1"),
    broken: [
      ...(await findings(
        scene,
        `SELECT r.id, 'run ' || r.run || ' of visit ' || r.visit || ' began while visit '
                || coalesce(r.seen_visit::text, 'none') || ' was committed' AS text
           FROM torture.runs r WHERE r.seen_visit IS NULL OR r.seen_visit < r.visit`,
      )),
      ...(await findings(
        scene,
        `SELECT r.id, 'run ' || r.run || ' of visit ' || r.visit || ' ran step ' || r.step || ', committed was '
                || r.seen_step AS text
           FROM torture.runs r WHERE r.seen_visit = r.visit AND r.seen_step <> r.step`,
      )),
      ...(await findings(
        scene,
        `SELECT r.id, 'run ' || r.run || ' of visit ' || r.visit || ' was handed another state than the committed one' AS text
           FROM torture.runs r WHERE r.seen_visit = r.visit AND r.seen_attempt = r.attempt AND NOT r.same_state`,
      )),
    ],
  }),
};
