import { count, findings, type Invariant } from "./invariant.js";

/** Joins: by the order of the changes, which the parent's lock makes one for all its children. */
export const joins: Invariant = {
  number: 8,
  title: "Joins: each fires once a round, after every child of the round has ended",
  check: async (scene) => ({
    cases: await count(
      scene,
      "SELECT count(*) AS n FROM torture.history WHERE was_status = 'awaiting_children' AND status <> 'awaiting_children'",
    ),
    broken: [
      ...(await findings(
        scene,
        `SELECT id, 'round ' || visit || ' joined ' || count(*) || ' times' AS text FROM torture.history
          WHERE was_status = 'awaiting_children' AND status = 'runnable' GROUP BY id, visit HAVING count(*) > 1`,
      )),
      ...(await findings(
        scene,
        `SELECT j.id, 'round ' || j.visit || ' joined while child ' || c.id || ' was ' || l.status AS text
           FROM torture.history j
           JOIN torture.history c ON c.parent_id = j.id AND c.parent_visit = j.visit AND c.op = 'INSERT'
          CROSS JOIN LATERAL (SELECT l.op, l.status FROM torture.history l WHERE l.id = c.id AND l.n < j.n ORDER BY l.n DESC LIMIT 1) l
          WHERE j.was_status = 'awaiting_children' AND j.status = 'runnable'
            AND l.op <> 'DELETE' AND l.status NOT IN ('done', 'failed')`,
      )),
      // The engine looks for parents whose children are all gone. Nobody deletes children here, so it should find none.
      ...(await findings(
        scene,
        `SELECT j.id, 'round ' || j.visit || ' joined without the end of a child: the last one was not counted' AS text
           FROM torture.history j
          WHERE j.was_status = 'awaiting_children' AND j.status = 'runnable'
            AND NOT EXISTS (SELECT FROM torture.history c
                             WHERE c.parent_id = j.id AND c.parent_visit = j.visit AND c.xid = j.xid AND c.status IN ('done', 'failed'))`,
      )),
      ...(await findings(
        scene,
        `SELECT r.id, 'run ' || r.run || ' joined and was shown the child ' || c.key || ' as ' || c.value AS text
           FROM torture.runs r CROSS JOIN LATERAL jsonb_each_text(r.children) c
          WHERE r.woken_by = 'children' AND c.value NOT IN ('done', 'failed')`,
      )),
      ...(await findings(
        scene,
        `SELECT h.id, 'a child of ' || h.parent_id || ' whose round ' || h.parent_visit || ' never began' AS text
           FROM torture.history h
          WHERE h.op = 'INSERT' AND h.parent_id IS NOT NULL
            AND NOT EXISTS (SELECT FROM torture.history p WHERE p.id = h.parent_id AND p.visit = h.parent_visit
                               AND p.was_status = 'executing' AND p.status = 'awaiting_children' AND p.xid = h.xid)`,
      )),
    ],
  }),
};
