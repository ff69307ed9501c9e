-- Runs:    a client, once a tick for all its waiters, while it has some.
-- Does:    looks at some instances directly, and reads which instances of anybody have ended lately.
-- Params:  all text: $1 ids to look at; $2 seconds since 1970 or NULL: from when on instances that ended are read; $3 how many
--          of those at most.
-- Returns: kind 'direct': id, status, step, and result or last_error of those that are there; kind 'ended': id; kind
--          'clock': at, the time of this reading, seconds since 1970.
-- Locks:   nothing.   Indexes: gen_durable_pkey, gen_durable_gc.
SELECT 'direct' AS kind, CAST(g.id AS text) AS id, CAST(g.status AS text) AS status, g.step,
       CASE WHEN g.status = 'done' THEN CAST(g.result AS text) END AS result,
       CASE WHEN g.status = 'failed' THEN g.last_error END AS error, CAST(NULL AS text) AS at
FROM :schema.gen_durable g
WHERE g.id = ANY (CAST(CAST($1 AS text) AS bigint[]))
UNION ALL
SELECT 'ended', CAST(ended.id AS text), NULL, NULL, NULL, NULL, NULL
FROM (
  SELECT id
  FROM :schema.gen_durable
  WHERE status IN ('done', 'failed') AND updated_at >= to_timestamp(CAST(CAST($2 AS text) AS float8))
  ORDER BY updated_at
  LIMIT CAST(CAST($3 AS text) AS bigint)
) AS ended
UNION ALL
SELECT 'clock', NULL, NULL, NULL, NULL, NULL, CAST(extract(epoch FROM now()) AS text)
