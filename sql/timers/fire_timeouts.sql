-- Runs:    coordinator (timers), when the earliest deadline is due; repeated while the batch comes back full.
-- Does:    wakes instances whose await has timed out: awaiting_signal -> runnable, wake_reason timeout. The awaited names
--          stay for the step to see, attempt is untouched. One that would enter an occupied correlation key loses its
--          identity, so that its timeout fires all the same. Index: gen_durable_await_deadline, gen_durable_pkey.
-- Params:  $1 rows at most int, $2 as of timestamptz or NULL (now), $3 whether they lose their identity whoever has it
--          boolean.
-- Returns: id and queue of each row that woke.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED: a signal that is being delivered wins. It may wait in
--          gen_durable_correlation, under the lock timeout.
WITH due AS (
  SELECT g.id FROM :schema.gen_durable g
   WHERE g.status = 'awaiting_signal' AND g.await_deadline IS NOT NULL
     AND g.await_deadline <= coalesce($2::timestamptz, now())
   ORDER BY g.await_deadline
   LIMIT $1::int
     FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE :schema.gen_durable g
   SET status = 'runnable', wake_reason = 'timeout', await_deadline = NULL,
       eligible_at = least(now(), coalesce($2::timestamptz, now())), updated_at = now(),
       correlation_scope = CASE
         WHEN g.correlation_guard IS NULL AND 'runnable' = ANY (g.correlation_scope)
          AND ($3::boolean OR (SELECT true FROM :schema.gen_durable o WHERE o.correlation_guard = g.correlation_key LIMIT 1))
         THEN '{}' ELSE g.correlation_scope END
 WHERE g.id = ANY (ARRAY(SELECT due.id FROM due))
RETURNING g.id, g.queue
