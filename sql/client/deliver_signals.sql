-- Runs:    a client, once for any number of signals; alone, or inside the caller's transaction.
-- Does:    puts signals into the inboxes of live instances and wakes those that are parked on their names. What is woken was
--          locked first and is judged by its locked version, so a delivery that races a park waits for it and sees it. A
--          redelivery (same dedup key) stores nothing and wakes nobody. A row that would enter a correlation key that is
--          occupied, or that an earlier row of the call enters, loses its identity, so that its transition commits.
-- Params:  all text, one entry a signal: $1 target ids, $2 target correlation keys (one of the two is NULL), $3 names,
--          $4 payloads (one JSON array), $5 dedup keys; then $6 poke channel, or NULL: do not poke, $7 queues[] that are not
--          to be poked.
-- Returns: one row a signal: place, target (NULL: no live instance, nothing was stored), queue where there is work now
--          (woken, or runnable and passed over by pickers while it was locked), and whether it was poked.
-- Locks:   gen_durable, FOR NO KEY UPDATE, id ascending; the new signals.
WITH asked AS MATERIALIZED (
  SELECT place, name, NULLIF(payload, 'null') AS payload, dedup_key, key,
         coalesce(id, (SELECT g.id FROM :schema.gen_durable g WHERE g.correlation_guard = key)) AS target_id
  FROM ROWS FROM (
    unnest(CAST(CAST($1 AS text) AS bigint[])),
    unnest(CAST(CAST($2 AS text) AS text[])),
    unnest(CAST(CAST($3 AS text) AS text[])),
    jsonb_array_elements(CAST(CAST($4 AS text) AS jsonb)),
    unnest(CAST(CAST($5 AS text) AS text[]))
  ) WITH ORDINALITY AS row (id, key, name, payload, dedup_key, place)
), target AS MATERIALIZED (
  SELECT g.id, g.status, g.awaits, g.queue, g.correlation_guard, g.eligible_at,
         CASE WHEN g.correlation_guard IS NULL AND 'runnable' = ANY (g.correlation_scope) THEN g.correlation_key END AS enters
  FROM :schema.gen_durable g
  WHERE g.id = ANY (ARRAY(SELECT target_id FROM asked))
    AND g.status IN ('runnable', 'executing', 'awaiting_signal', 'awaiting_children')
  ORDER BY g.id
  FOR NO KEY UPDATE
), reached AS MATERIALIZED (
  SELECT asked.*, target.id AS reached_id
  FROM asked
  LEFT JOIN target ON target.id = asked.target_id AND (asked.key IS NULL OR target.correlation_guard = asked.key)
), stored AS (
  INSERT INTO :schema.signals (target_id, name, payload, dedup_key)
  SELECT reached_id, name, payload, dedup_key
  FROM reached
  WHERE reached_id IS NOT NULL
  ORDER BY reached_id, place
  ON CONFLICT (target_id, dedup_key) DO NOTHING
  RETURNING target_id, name
), waking AS MATERIALIZED (
  SELECT target.id, target.enters, row_number() OVER (PARTITION BY target.enters ORDER BY target.id) AS turn
  FROM target
  JOIN (SELECT target_id, array_agg(name) AS names FROM stored GROUP BY target_id) AS arrived ON arrived.target_id = target.id
  WHERE target.status = 'awaiting_signal' AND target.awaits && arrived.names
), woken AS (
  UPDATE :schema.gen_durable AS g SET
    status = 'runnable', wake_reason = 'signal', await_deadline = NULL, eligible_at = now(), updated_at = now(),
    correlation_scope = CASE
      WHEN waking.enters IS NOT NULL AND (waking.turn > 1
        OR (SELECT true FROM :schema.gen_durable o WHERE o.correlation_guard = waking.enters LIMIT 1))
      THEN '{}' ELSE g.correlation_scope END
  FROM waking
  WHERE g.id = waking.id
  RETURNING g.id, g.queue
), ready AS MATERIALIZED (
  SELECT id, queue FROM woken
  UNION ALL
  SELECT id, queue FROM target WHERE status = 'runnable' AND eligible_at <= now()
), poked AS MATERIALIZED (
  SELECT queue, pg_notify(CAST($6 AS text), CASE WHEN position(chr(9) IN queue) > 0 THEN queue || chr(9) || '0' ELSE queue END)
  FROM (SELECT DISTINCT queue FROM ready) AS due
  WHERE CAST($6 AS text) IS NOT NULL AND queue <> ALL (CAST(CAST($7 AS text) AS text[]))
)
SELECT CAST(reached.place AS text) AS place, CAST(reached.reached_id AS text) AS target, ready.queue,
       CASE WHEN poked.queue IS NULL THEN 'no' ELSE 'yes' END AS poked
FROM reached
LEFT JOIN ready ON ready.id = reached.reached_id
LEFT JOIN poked ON poked.queue = ready.queue
