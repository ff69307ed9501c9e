-- Runs:    flusher, after apply_outcomes, only when children of the batch ended.       Index: gen_durable_pkey.
-- Does:    counts them off their parents, siblings as one; a parent that reaches zero wakes. Only children of the round that
--          the parent waits in count. A parent that would enter an occupied correlation key loses its identity, so that
--          the join is never lost.
-- Params:  arrays, one entry a parent and round: $1 parent ids bigint[], $2 rounds int[], $3 counts int[].
--          $4 timestamptz: as of when, NULL: now. $5 boolean: a parent that may enter its key loses it, whoever has it.
-- Returns: queue of each parent that woke.
-- Locks:   rows that lock_batch has locked. It may wait in gen_durable_correlation, under the lock timeout.
WITH joined AS (
  UPDATE :schema.gen_durable AS p SET
    children_pending = greatest(p.children_pending - b.ended, 0),
    status = CASE WHEN p.children_pending <= b.ended THEN CAST('runnable' AS :schema.durable_status) ELSE p.status END,
    wake_reason = CASE WHEN p.children_pending <= b.ended THEN 'children' END,
    eligible_at = CASE WHEN p.children_pending <= b.ended THEN coalesce($4::timestamptz, now()) ELSE p.eligible_at END,
    correlation_scope = CASE
      WHEN p.children_pending <= b.ended AND p.correlation_guard IS NULL AND 'runnable' = ANY (p.correlation_scope)
       AND ($5::boolean OR (SELECT true FROM :schema.gen_durable o WHERE o.correlation_guard = p.correlation_key LIMIT 1))
      THEN '{}' ELSE p.correlation_scope END,
    updated_at = coalesce($4::timestamptz, now())
  FROM unnest($1::bigint[], $2::int[], $3::int[]) AS b (id, round, ended)
  WHERE p.id = ANY (ARRAY[b.id]) AND p.status::text = 'awaiting_children' AND p.visit = b.round
  RETURNING p.queue, p.status
)
SELECT queue FROM joined WHERE status = 'runnable'
