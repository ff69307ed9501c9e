-- Runs:    `gen-durable status`.
-- Does:    counts the instances of every queue by status, and how long the oldest one that is due has been waiting.
-- Params:  none.
-- Returns: queue, status, instances, due, waiting_ms (null where nothing is due).
-- Locks:   nothing. Reads the whole table.
SELECT queue, status::text AS status, count(*) AS instances,
       count(*) FILTER (WHERE status = 'runnable' AND eligible_at <= now()) AS due,
       (extract(epoch FROM now() - min(eligible_at) FILTER (WHERE status = 'runnable' AND eligible_at <= now()))
         * 1000)::float8 AS waiting_ms
FROM :schema.gen_durable
GROUP BY queue, status
ORDER BY queue, status
