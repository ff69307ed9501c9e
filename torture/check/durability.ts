import { count, findings, type Invariant } from "./invariant.js";

/** What was answered is there, and stays. */
export const durability: Invariant = {
  number: 1,
  title: "Durability: what was acknowledged survives",
  check: async (scene) => ({
    cases: await count(scene, "SELECT count(*) AS n FROM torture.acks"),
    broken: [
      ...(await findings(
        scene,
        `SELECT a.id, 'its insert was acknowledged, and it is not there' AS text FROM torture.acks a
          WHERE a.kind IN ('inserted', 'duplicate')
            AND NOT EXISTS (SELECT FROM gen_durable.gen_durable g WHERE g.id = a.id)
            AND NOT EXISTS (SELECT FROM torture.history h WHERE h.id = a.id AND h.op = 'DELETE'
                               AND h.was_status IN ('done', 'failed'))`,
      )),
      ...(await findings(
        scene,
        `SELECT a.id, 'signal ' || a.sig || ' was acknowledged and never stored' AS text FROM torture.acks a
          WHERE a.kind = 'signalled'
            AND NOT EXISTS (SELECT FROM torture.inbox i WHERE i.target = a.id AND i.sig = a.sig AND i.op = 'stored')`,
      )),
      ...(await findings(
        scene,
        `SELECT i.target AS id, 'signal row ' || i.signal || ' went, and no run was handed it' AS text
           FROM torture.inbox i JOIN gen_durable.gen_durable g ON g.id = i.target
          WHERE i.op = 'consumed' AND g.status <> 'done'
            AND NOT EXISTS (SELECT FROM torture.runs r WHERE r.id = i.target AND i.signal = ANY (r.awaited))`,
      )),
      ...(await findings(
        scene,
        `SELECT a.id, 'it was told to be done with ' || (a.value->'result')::text || ', and is ' || g.status || ' with '
                || coalesce(g.result::text, 'nothing') AS text
           FROM torture.acks a JOIN gen_durable.gen_durable g ON g.id = a.id
          WHERE a.kind = 'ended' AND a.value->>'status' = 'done'
            AND (g.status <> 'done' OR g.result IS DISTINCT FROM a.value->'result')`,
      )),
      ...(await findings(
        scene,
        `SELECT a.id, 'it was told to have failed with "' || (a.value->>'error') || '", and no version of it has' AS text
           FROM torture.acks a
          WHERE a.kind = 'ended' AND a.value->>'status' = 'failed'
            AND NOT EXISTS (SELECT FROM torture.history h WHERE h.id = a.id AND h.status = 'failed'
                               AND h.last_error IS NOT DISTINCT FROM a.value->>'error')`,
      )),
      ...(await findings(
        scene,
        `SELECT a.id, 'it was told to be cancelled, and is ' || g.status AS text
           FROM torture.acks a JOIN gen_durable.gen_durable g ON g.id = a.id
          WHERE a.kind = 'cancelled' AND a.value->>'answer' = 'cancelled' AND g.status <> 'failed'
            AND NOT EXISTS (SELECT FROM torture.history h WHERE h.id = a.id AND h.was_status = 'failed' AND h.status = 'runnable')`,
      )),
      ...(await findings(
        scene,
        `SELECT a.id, 'its retry was acknowledged, and no version shows it' AS text FROM torture.acks a
          WHERE a.kind = 'retried'
            AND NOT EXISTS (SELECT FROM torture.history h WHERE h.id = a.id AND h.was_status = 'failed' AND h.status = 'runnable')`,
      )),
    ],
  }),
};
