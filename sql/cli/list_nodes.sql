-- Runs:    `gen-durable nodes` and `gen-durable status`.
-- Does:    lists the nodes that have entered themselves and not left, with what each holds.
-- Params:  none.
-- Returns: id, instance, hostname, pid, version, queues, started_at, up_ms, silent_ms, executing.
-- Locks:   nothing.
SELECT n.id, n.instance, n.hostname, n.pid, n.version, n.queues, n.started_at,
       (extract(epoch FROM clock_timestamp() - n.started_at) * 1000)::float8 AS up_ms,
       (extract(epoch FROM clock_timestamp() - n.heartbeat_at) * 1000)::float8 AS silent_ms,
       coalesce(held.executing, 0)::bigint AS executing
FROM :schema.nodes n
LEFT JOIN (
  SELECT split_part(locked_by, '/', 1) AS node, count(*) AS executing
  FROM :schema.gen_durable WHERE status = 'executing' GROUP BY 1
) held ON held.node = n.id
ORDER BY n.started_at, n.id
