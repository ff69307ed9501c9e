-- Runs:    the testing helpers, before each round of a drain.
-- Does:    lists the queues that have a runnable row which counts as due.
-- Params:  $1 as of timestamptz or NULL (now).
-- Returns: queue.                     Index: gen_durable_pick.
-- Locks:   nothing.
SELECT DISTINCT g.queue
  FROM :schema.gen_durable g
 WHERE g.status = 'runnable' AND g.eligible_at <= coalesce($1::timestamptz, now())
 ORDER BY g.queue
