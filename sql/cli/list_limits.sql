-- Runs:    `gen-durable limits`.
-- Does:    shows the configured limits, and each key of theirs that has counters or rows: what it may, what it has given
--          out, who waits.
-- Params:  $1 keys at most int.
-- Returns: kind, name, key (NULL: the limit itself, when no key of it is in use), capacity, rate (tokens a second), shards,
--          available, in_use (NULL for rates), waiting: runnable rows that are due, refill_ms: until a rate's next whole
--          token (NULL: there is one, or none will come).
-- Locks:   nothing.
WITH waiting AS MATERIALIZED (
  SELECT k.kind, k.key, count(*) AS rows
    FROM :schema.gen_durable g
    CROSS JOIN LATERAL (VALUES ('conc', g.concurrency_key), ('rate', g.rate_limit)) AS k (kind, key)
   WHERE g.status = 'runnable' AND g.eligible_at <= now() AND k.key IS NOT NULL
   GROUP BY k.kind, k.key
), used AS MATERIALIZED (
  SELECT g.concurrency_key AS key, count(*) AS slots FROM :schema.gen_durable g
   WHERE g.status = 'executing' AND g.concurrency_shard >= 0 GROUP BY g.concurrency_key
), counters AS MATERIALIZED (
  SELECT b.kind, b.key, count(*) AS shards,
         sum(CASE WHEN b.kind = 'conc' THEN b.available - b.debt
                  ELSE least(c.capacity / c.shards,
                             b.available + extract(epoch FROM now() - b.last_refill)::float8 * c.rate / c.shards) END) AS available
    FROM :schema.gen_durable_buckets b
    JOIN :schema.gen_durable_bucket_configs c ON c.kind = b.kind AND c.name = split_part(b.key, ':', 1)
   GROUP BY b.kind, b.key
), keys AS MATERIALIZED (
  SELECT kind, key FROM waiting
  UNION SELECT 'conc', key FROM used
  UNION SELECT kind, key FROM counters
), listed AS (
  SELECT c.kind, c.name, k.key, c.capacity, c.rate, c.shards,
         -- A counter that is missing is full.
         CASE WHEN c.kind = 'conc' THEN c.capacity - coalesce(u.slots, 0)
              ELSE coalesce(n.available, 0) + (c.shards - coalesce(n.shards, 0)) * c.capacity / c.shards END AS available,
         CASE WHEN c.kind = 'conc' THEN coalesce(u.slots, 0) END AS in_use, coalesce(w.rows, 0) AS waiting
    FROM :schema.gen_durable_bucket_configs c
    LEFT JOIN keys k ON k.kind = c.kind AND split_part(k.key, ':', 1) = c.name
    LEFT JOIN used u ON c.kind = 'conc' AND u.key = k.key
    LEFT JOIN counters n ON n.kind = c.kind AND n.key = k.key
    LEFT JOIN waiting w ON w.kind = c.kind AND w.key = k.key
)
SELECT l.kind, l.name, l.key, l.capacity, l.rate, l.shards, greatest(l.available, 0) AS available, l.in_use::int AS in_use,
       l.waiting::int AS waiting,
       CASE WHEN l.rate > 0 AND l.available < 1 THEN (1 - l.available) / l.rate * 1000 END AS refill_ms
  FROM listed l
 ORDER BY l.kind, l.name, l.waiting DESC, l.key
 LIMIT $1::int
