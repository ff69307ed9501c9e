import { count, findings, type Invariant } from "./invariant.js";

/** A node that marks a row lets it begin at once, if it lives. */
const MARK_MS = 20_000;

/** Troubles in which a node that lives may be away between the mark and the beginning for longer than its lease. */
const AWAY = ["stopped", "connections black-holed", "database down", "commits slow", "everything slow"];

/**
 * Crashes: user code writes a line to a file before it does anything else, so what has begun is known. One exception: where
 * the loss of a whole node must be known (suspects, and steps that must not run twice), the table says that a row begins
 * before it does, and a node that dies in between, or is away until its lease is over, is judged by that.
 */
export const crashes: Invariant = {
  number: 12,
  title: "Blame: a crash is charged only to a visit whose user code had begun",
  check: async (scene) => ({
    cases: await count(scene, "SELECT count(*) AS n FROM torture.history WHERE crashes > was_crashes"),
    broken: await findings(
      scene,
      `SELECT h.id, 'visit ' || h.was_visit || ', attempt ' || h.was_attempt || ', was charged a crash under ' || h.was_claim
              || ' and had not begun there' AS text
         FROM torture.history h LEFT JOIN torture.nodes n ON n.node = split_part(h.was_claim, '/', 1)
        WHERE h.crashes > h.was_crashes
          AND NOT EXISTS (SELECT FROM torture.begun b WHERE b.id = h.id AND b.visit = h.was_visit AND b.attempt = h.was_attempt
                             AND b.pid = n.pid)
          AND NOT (h.reaps > h.was_reaps AND h.was_marked_at IS NOT NULL
                   AND (h.was_reaps > 0 OR h.was_crashes > 0 OR h.fsm = 'guarded')
                   AND (EXISTS (SELECT FROM torture.ends e WHERE e.pid = n.pid
                                   AND e.at BETWEEN h.was_marked_at AND h.was_marked_at + interval '${MARK_MS} ms')
                        OR EXISTS (SELECT FROM torture.troubles t WHERE (t.pid = n.pid OR t.pid IS NULL) AND t.kind = ANY ($1::text[])
                                      AND t.from_at < h.at AND t.to_at > h.was_marked_at)))`,
      [AWAY],
    ),
  }),
};
