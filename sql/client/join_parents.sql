-- Runs:    a client that cancelled children, after cancel_instances.                      Index: gen_durable_pkey.
-- Does:    counts them off their parents, siblings as one; a parent that reaches zero wakes. Only children of the round that
--          the parent waits in count. A parent that would enter an occupied correlation key loses its identity.
-- Params:  all text, one entry a parent and round: $1 parent ids, $2 rounds, $3 counts.
-- Returns: queue of each parent that woke.
-- Locks:   rows that lock_family has locked. It may wait in gen_durable_correlation, under the lock timeout.
WITH joined AS (
  UPDATE :schema.gen_durable AS p SET
    children_pending = greatest(p.children_pending - ended.count, 0),
    status = CASE WHEN p.children_pending <= ended.count THEN 'runnable' ELSE p.status END,
    wake_reason = CASE WHEN p.children_pending <= ended.count THEN 'children' END,
    eligible_at = CASE WHEN p.children_pending <= ended.count THEN now() ELSE p.eligible_at END,
    correlation_scope = CASE
      WHEN p.children_pending <= ended.count AND p.correlation_guard IS NULL AND 'runnable' = ANY (p.correlation_scope)
       AND (SELECT true FROM :schema.gen_durable o WHERE o.correlation_guard = p.correlation_key LIMIT 1)
      THEN '{}' ELSE p.correlation_scope END,
    updated_at = now()
  FROM ROWS FROM (
    unnest(CAST(CAST($1 AS text) AS bigint[])),
    unnest(CAST(CAST($2 AS text) AS int[])),
    unnest(CAST(CAST($3 AS text) AS int[]))
  ) AS ended (id, round, count)
  WHERE p.id = ended.id AND CAST(p.status AS text) = 'awaiting_children' AND p.visit = ended.round
  RETURNING p.queue, p.status
)
SELECT queue FROM joined WHERE status = 'runnable'
