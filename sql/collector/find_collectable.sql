-- Runs:    collector, a batch at a time.      Index: gen_durable_gc.
-- Does:    finds terminal instances older than the retention. A child is spared while its parent waits for children, and
--          until the parent has committed a visit after the join, so that the join's step can see it.
-- Params:  $1 retention ms float8, $2 rows at most int, $3 not before timestamptz or NULL: where the last batch of the
--          sweep ended, so that spared rows are not looked at again.
-- Returns: id, and ended_at text to go on from.
-- Locks:   nothing.
SELECT g.id, g.updated_at::text AS ended_at
  FROM :schema.gen_durable g
 WHERE g.status IN ('done', 'failed')
   AND g.updated_at < now() - $1::float8 * interval '1 millisecond'
   AND g.updated_at >= coalesce($3::timestamptz, '-infinity')
   AND (g.parent_id IS NULL
        OR (SELECT true FROM :schema.gen_durable p
             WHERE p.id = g.parent_id AND p.status::text NOT IN ('done', 'failed') AND p.visit <= g.parent_visit
             LIMIT 1) IS NULL)
 ORDER BY g.updated_at
 LIMIT $2::int
