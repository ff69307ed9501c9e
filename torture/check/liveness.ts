import { count, findings, type Invariant } from "./invariant.js";

/** Liveness: when everything is well again and nothing is left to wait for, everything has ended. */
export const liveness: Invariant = {
  number: 10,
  title: "Liveness: every instance ends",
  check: async (scene) => ({
    cases: await count(scene, "SELECT count(*) AS n FROM gen_durable.gen_durable"),
    broken: scene.isQuiet
      ? await findings(
          scene,
          `SELECT id, 'has not ended: it is ' || status || ' at visit ' || visit || ' of step ' || step AS text
             FROM gen_durable.gen_durable WHERE status NOT IN ('done', 'failed')`,
        )
      : [],
  }),
};
