-- Runs:    reaper, after lock_parents, in the same transaction; a statement of its own, so that it sees every child that
--          ended before the lock was taken.      Indexes: gen_durable_pkey, gen_durable_parent.
-- Does:    awaiting_children -> runnable for parents of which no child of the round is left to end. One that would enter an
--          occupied correlation key loses its identity.
-- Params:  $1 ids bigint[], locked.
-- Returns: id and queue of each parent that woke.
-- Locks:   nothing new. It may wait in gen_durable_correlation, under the lock timeout.
UPDATE :schema.gen_durable p
   SET status = 'runnable', wake_reason = 'children', children_pending = 0, eligible_at = now(), updated_at = now(),
       correlation_scope = CASE
         WHEN p.correlation_guard IS NULL AND 'runnable' = ANY (p.correlation_scope)
          AND (SELECT true FROM :schema.gen_durable o WHERE o.correlation_guard = p.correlation_key LIMIT 1)
         THEN '{}' ELSE p.correlation_scope END
 WHERE p.id = ANY ($1::bigint[]) AND p.status::text = 'awaiting_children'
   AND (SELECT true FROM :schema.gen_durable c
         WHERE c.parent_id = p.id AND c.parent_visit = p.visit AND c.status::text NOT IN ('done', 'failed')
         LIMIT 1) IS NULL
RETURNING p.id, p.queue
