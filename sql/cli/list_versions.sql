-- Runs:    `gen-durable versions`.
-- Does:    counts the instances of every machine and version by status, and the running nodes that know it.
-- Params:  $1 float8, nodeTimeoutMs: a node that has been silent for longer does not count. $2 text: one machine; NULL: all.
-- Returns: fsm, version, one count a status, oldest_ms: the age of the oldest instance that lives (NULL: none does),
--          known_by: running nodes that have loaded it, registered: a node has once loaded it, is_newest of its machine.
-- Locks:   nothing. Reads the whole table.
WITH counted AS (
  SELECT fsm, fsm_version AS version,
         count(*) FILTER (WHERE status = 'runnable') AS runnable,
         count(*) FILTER (WHERE status = 'executing') AS executing,
         count(*) FILTER (WHERE status = 'awaiting_signal') AS awaiting_signal,
         count(*) FILTER (WHERE status = 'awaiting_children') AS awaiting_children,
         count(*) FILTER (WHERE status = 'done') AS done,
         count(*) FILTER (WHERE status = 'failed') AS failed,
         min(inserted_at) FILTER (WHERE status NOT IN ('done', 'failed')) AS oldest
  FROM :schema.gen_durable
  WHERE $2::text IS NULL OR fsm = $2::text
  GROUP BY fsm, fsm_version
), known AS (
  SELECT u.fsm, u.version, count(*) AS nodes
  FROM :schema.nodes n
  CROSS JOIN LATERAL unnest(n.fsms, n.fsm_versions) AS u (fsm, version)
  WHERE n.heartbeat_at > now() - make_interval(secs => $1::float8 / 1000) AND ($2::text IS NULL OR u.fsm = $2::text)
  GROUP BY u.fsm, u.version
), registered AS (
  SELECT name AS fsm, version FROM :schema.fsms WHERE $2::text IS NULL OR name = $2::text
), all_versions AS (
  SELECT fsm, version FROM counted UNION SELECT fsm, version FROM known UNION SELECT fsm, version FROM registered
)
SELECT a.fsm, a.version,
       coalesce(c.runnable, 0) AS runnable, coalesce(c.executing, 0) AS executing,
       coalesce(c.awaiting_signal, 0) AS awaiting_signal, coalesce(c.awaiting_children, 0) AS awaiting_children,
       coalesce(c.done, 0) AS done, coalesce(c.failed, 0) AS failed,
       (extract(epoch FROM now() - c.oldest) * 1000)::float8 AS oldest_ms,
       coalesce(k.nodes, 0) AS known_by, r.fsm IS NOT NULL AS registered,
       a.version = max(a.version) FILTER (WHERE k.fsm IS NOT NULL OR r.fsm IS NOT NULL) OVER (PARTITION BY a.fsm) AS is_newest
FROM all_versions a
LEFT JOIN counted c USING (fsm, version)
LEFT JOIN known k USING (fsm, version)
LEFT JOIN registered r USING (fsm, version)
ORDER BY a.fsm, a.version
