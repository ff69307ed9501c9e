-- Runs:    coordinator (timers), when the earliest deadline is due; repeated while the batch comes back full.
-- Does:    wakes instances whose await has timed out: awaiting_signal -> runnable, wake_reason timeout. The awaited names
--          stay for the step to see, attempt is untouched. Index: gen_durable_await_deadline, gen_durable_pkey.
-- Params:  $1 rows at most int, $2 as of timestamptz or NULL (now).
-- Returns: id and queue of each row that woke.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED: a signal that is being delivered wins.
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
       eligible_at = least(now(), coalesce($2::timestamptz, now())), updated_at = now()
 WHERE g.id = ANY (ARRAY(SELECT due.id FROM due))
RETURNING g.id, g.queue
