-- Runs:    `gen-durable status`.
-- Does:    finds due work that no node will take as things are, and says why: an FSM or version that no node has ever
--          loaded, or none of the live ones that serve its queue, a queue that no live node serves, a rate limit that nobody has configured, a claim whose lease has
--          run out and which nobody has taken back.
-- Params:  $1 float8, nodeTimeoutMs: a node that has been silent for longer does not count.
-- Returns: reason, fsm, version, queue, detail, instances, oldest_id.
-- Locks:   nothing.
WITH alive AS MATERIALIZED (
  SELECT queues, fsms, fsm_versions FROM :schema.nodes
  WHERE heartbeat_at > now() - make_interval(secs => $1::float8 / 1000)
), served AS (
  SELECT DISTINCT unnest(queues) AS queue FROM alive
), loaded AS (
  SELECT DISTINCT q.queue, d.fsm, d.version
  FROM alive CROSS JOIN LATERAL unnest(alive.queues) AS q (queue)
  CROSS JOIN LATERAL unnest(alive.fsms, alive.fsm_versions) AS d (fsm, version)
), found AS (
  SELECT CASE
           WHEN g.status = 'executing' THEN 'lease_expired'
           WHEN f.name IS NULL THEN 'unknown_fsm'
           WHEN c.name IS NULL AND g.rate_limit IS NOT NULL THEN 'unknown_rate_limit'
           WHEN s.queue IS NULL THEN 'unserved_queue'
           ELSE 'unloaded_fsm'
         END AS reason,
         g.fsm, g.fsm_version AS version, g.queue,
         CASE WHEN g.status = 'executing' THEN split_part(g.locked_by, '/', 1) ELSE g.rate_limit END AS detail, g.id
  FROM :schema.gen_durable g
  LEFT JOIN :schema.fsms f ON f.name = g.fsm AND f.version = g.fsm_version
  LEFT JOIN :schema.gen_durable_bucket_configs c ON c.kind = 'rate' AND c.name = split_part(g.rate_limit, ':', 1)
  LEFT JOIN served s ON s.queue = g.queue
  LEFT JOIN loaded l ON l.queue = g.queue AND l.fsm = g.fsm AND l.version = g.fsm_version
  WHERE (g.status = 'runnable' AND g.eligible_at <= now()
         AND (f.name IS NULL OR l.queue IS NULL OR (g.rate_limit IS NOT NULL AND c.name IS NULL)))
     OR (g.status = 'executing' AND g.lease_expires_at < now())
)
SELECT reason, fsm, version, queue, detail, count(*) AS instances, min(id) AS oldest_id
FROM found
GROUP BY reason, fsm, version, queue, detail
ORDER BY reason, fsm, version, queue, detail
