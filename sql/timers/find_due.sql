-- Runs:    coordinator (timers), for all queues of the node at once, at least every DUE_HORIZON_MS.
-- Does:    finds the earliest future due row of each queue, one probe a priority, and the earliest await deadline of all.
-- Params:  $1 queues text[], $2 as of timestamptz or NULL (now).
-- Returns: a row a queue that has future work: queue, due_in_ms; and one with queue NULL for the deadline (0 or less: due now).
-- Locks:   nothing. Indexes: gen_durable_pick, gen_durable_await_deadline.
WITH RECURSIVE places AS (
  SELECT q.queue,
         (SELECT r.priority FROM :schema.gen_durable r
           WHERE r.queue = q.queue AND r.status = 'runnable' ORDER BY r.priority LIMIT 1) AS priority
    FROM unnest($1::text[]) AS q (queue)
  UNION ALL
  SELECT p.queue,
         (SELECT r.priority FROM :schema.gen_durable r
           WHERE r.queue = p.queue AND r.status = 'runnable' AND r.priority > p.priority
           ORDER BY r.priority LIMIT 1)
    FROM places p WHERE p.priority IS NOT NULL
),
due AS (
  SELECT p.queue, min(d.eligible_at) AS at
    FROM places p
    CROSS JOIN LATERAL (
      SELECT g.eligible_at FROM :schema.gen_durable g
       WHERE g.queue = p.queue AND g.status = 'runnable' AND g.priority = p.priority
         AND g.eligible_at > coalesce($2::timestamptz, now())
       ORDER BY g.eligible_at LIMIT 1
    ) d
   WHERE p.priority IS NOT NULL
   GROUP BY p.queue
  UNION ALL
  SELECT NULL, (SELECT g.await_deadline FROM :schema.gen_durable g
                 WHERE g.status = 'awaiting_signal' AND g.await_deadline IS NOT NULL
                 ORDER BY g.await_deadline LIMIT 1)
)
SELECT due.queue, (extract(epoch FROM due.at - coalesce($2::timestamptz, clock_timestamp())) * 1000)::float8 AS due_in_ms
  FROM due
 WHERE due.at IS NOT NULL AND due.at < 'infinity'
