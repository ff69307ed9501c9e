-- Runs:    reaper, once a sweep.      Indexes: gen_durable_join, gen_durable_parent.
-- Does:    finds instances that wait for children of which none is left to end: the last were deleted by hand.
-- Params:  $1 after id bigint, $2 waiting instances to look at, at most int.
-- Returns: id of each instance looked at, and whether it is orphaned; in the order of the ids.
-- Locks:   nothing; wake_orphaned_parents looks again under the lock.
SELECT p.id,
       (SELECT true FROM :schema.gen_durable c
         WHERE c.parent_id = p.id AND c.parent_visit = p.visit AND c.status::text NOT IN ('done', 'failed')
         LIMIT 1) IS NULL AS orphaned
  FROM :schema.gen_durable p
 WHERE p.status = 'awaiting_children' AND p.id > $1::bigint
 ORDER BY p.id
 LIMIT $2::int
