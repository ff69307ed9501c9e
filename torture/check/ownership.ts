import { LEASE_TTL_MS, NODE_TIMEOUT_MS } from "../settings.js";
import { count, findings, type Invariant } from "./invariant.js";

/** A run whose first entry took longer may have been stopped, or have had no database, in the middle of it. */
const QUICK_MS = 400;

/** An outcome that is this old when its row is taken back was not on its way any more. */
const DROPPED_AFTER_MS = LEASE_TTL_MS / 2;

/** Troubles in which an outcome may wait for longer than its lease. A lost connection is none: it is opened again at once. */
const EXCUSES = ["stopped", "connections black-holed", "database down", "commits slow", "everything slow"];

/** A process's end is noted a little after others may have seen it. */
const END_SLACK_MS = 2_000;

const MOVES = [
  ["runnable", "executing"],
  ["executing", "runnable"],
  ["executing", "awaiting_signal"],
  ["executing", "awaiting_children"],
  ["executing", "done"],
  ["executing", "failed"],
  ["awaiting_signal", "runnable"],
  ["awaiting_children", "runnable"],
  ["runnable", "failed"],
  ["awaiting_signal", "failed"],
  ["awaiting_children", "failed"],
  ["failed", "runnable"],
].map((move) => move.join(" "));

/**
 * A run's name is in what it hands over, and its row told it, when it began, under which claim it was. So each committed
 * outcome names the run it came from, and its row's old version the claim it was committed under.
 */
export const ownership: Invariant = {
  number: 3,
  title: "Ownership: an outcome commits only under the claim that ran it, and under a valid one always",
  check: async (scene) => ({
    cases: await count(
      scene,
      "SELECT count(*) AS n FROM torture.history WHERE was_status = 'executing' AND by IS DISTINCT FROM was_by",
    ),
    broken: [
      ...(await findings(
        scene,
        `SELECT h.id, 'visit ' || h.was_visit || ' was committed under the claim ' || h.was_claim || ' by run '
                || h.by || coalesce(', which began under ' || r.seen_claim || ' in process ' || r.pid, ', which never began') AS text
           FROM torture.history h
           LEFT JOIN torture.runs r ON r.run = h.by
           LEFT JOIN torture.nodes n ON n.node = split_part(h.was_claim, '/', 1)
           LEFT JOIN torture.nodes s ON s.node = split_part(r.seen_claim, '/', 1)
          WHERE h.was_status = 'executing' AND h.by IS DISTINCT FROM h.was_by
            AND (r.run IS NULL OR r.id <> h.id OR r.visit <> h.was_visit OR r.pid IS DISTINCT FROM n.pid
                 OR (r.seen_status = 'executing' AND r.seen_visit = r.visit AND s.pid = r.pid AND r.seen_claim <> h.was_claim))`,
      )),
      ...(await findings(
        scene,
        `SELECT h.id, 'visit ' || h.was_visit || ' became ' || h.visit || ' by no run' AS text FROM torture.history h
          WHERE h.was_status = 'executing' AND h.visit <> h.was_visit AND h.by IS NOT DISTINCT FROM h.was_by
            AND NOT h.cancels AND h.status <> 'failed'`,
      )),
      ...(await findings(
        scene,
        `SELECT h.id, 'visit ' || h.was_visit || ' became ' || h.visit AS text FROM torture.history h
          WHERE h.op = 'UPDATE' AND h.visit NOT IN (h.was_visit, h.was_visit + 1)`,
      )),
      ...(await findings(
        scene,
        `SELECT h.id, h.was_status || ' became ' || h.status || ' (change ' || h.n || ')' AS text FROM torture.history h
          WHERE h.op = 'UPDATE' AND h.was_status <> h.status AND NOT h.was_status || ' ' || h.status = ANY ($1::text[])`,
        [MOVES],
      )),
      ...(await findings(
        scene,
        `SELECT r.id, 'run ' || r.run || ' of visit ' || r.visit || ' began without a claim of its process: its row was '
                || r.seen_status || ', visit ' || r.seen_visit || ', claimed by ' || coalesce(r.seen_claim, 'nobody') AS text
           FROM torture.runs r
           LEFT JOIN torture.nodes s ON s.node = split_part(r.seen_claim, '/', 1)
          WHERE r.kind = 'step' AND r.took_ms < ${QUICK_MS}
            AND (r.seen_status <> 'executing' OR r.seen_visit <> r.visit OR s.pid IS DISTINCT FROM r.pid)
            AND NOT EXISTS (SELECT FROM torture.acks a WHERE a.id = r.id AND a.kind = 'cancelled' AND (a.value->>'force')::boolean)`,
      )),
      ...(await findings(
        scene,
        `SELECT h.id, 'run ' || r.run || ' of visit ' || r.visit || ' ended at ' || r.ended_at
                || ', its process lived, and its row was taken back at ' || h.at AS text
           FROM torture.history h
           JOIN torture.runs r ON r.id = h.id AND r.visit = h.was_visit AND r.attempt = h.was_attempt AND r.seen_claim = h.was_claim
          WHERE h.was_status = 'executing' AND h.status = 'runnable' AND h.by IS NOT DISTINCT FROM h.was_by
            AND h.reaps > h.was_reaps AND r.ended_at < h.at - interval '${DROPPED_AFTER_MS} ms'
            AND NOT EXISTS (SELECT FROM torture.ends e WHERE e.pid = r.pid AND e.at < h.at + interval '1 second')
            AND NOT EXISTS (SELECT FROM torture.troubles t WHERE (t.pid = r.pid OR t.pid IS NULL) AND t.kind = ANY ($1::text[])
                               AND t.from_at < h.at AND t.to_at > r.ended_at - interval '${LEASE_TTL_MS} ms')`,
        [EXCUSES],
      )),
      ...(await findings(
        scene,
        `SELECT h.id, 'the claim ' || h.was_claim || ' changed into ' || h.claim || ' while it executed' AS text
           FROM torture.history h
          WHERE h.was_status = 'executing' AND h.status = 'executing' AND h.claim IS DISTINCT FROM h.was_claim`,
      )),
      ...(await findings(
        scene,
        `SELECT h.id, 'the claim ' || h.was_claim || ' was taken back at ' || h.at || ', its lease ran until ' || h.was_lease
                || ', and its node was silent for ' || coalesce(round(h.silent_ms)::text || ' ms', 'ever') AS text
           FROM torture.history h LEFT JOIN torture.nodes n ON n.node = split_part(h.was_claim, '/', 1)
          WHERE h.reaps > h.was_reaps AND h.was_lease > h.at AND coalesce(h.silent_ms, 0) < ${NODE_TIMEOUT_MS}
            AND NOT EXISTS (SELECT FROM torture.ends e WHERE e.pid = n.pid AND e.at < h.at + interval '${END_SLACK_MS} ms')`,
      )),
    ],
  }),
};
