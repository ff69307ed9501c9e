-- Runs:    a client, for one row or a chunk of many without correlation keys; alone, or inside the caller's transaction.
-- Does:    inserts instances and pokes their queues. Without keys nothing can conflict, which spares a fourth of the work
--          of insert_keyed.sql.
-- Params:  all text, one entry a row: $1 fsm[], $2 version[], $3 step[], $4 states (one JSON array), $5 queue[],
--          $6 priority[], $7 delay_ms[], $8 at_ms[], $9 concurrency_key[], $10 rate_limit[], $11 weight[] (each an
--          array's text); then $12 correlation_scope of all, $13 channel, $14 payloads[].
--          A column that is the same in every row may have one entry, one without values none (core/src/client/text.ts).
-- Returns: the id of each new row, ascending in the order they were given.
-- Locks:   the new rows only.
WITH given AS (
  SELECT *
  FROM ROWS FROM (
    unnest(CAST(CAST($1 AS text) AS text[])),
    unnest(CAST(CAST($2 AS text) AS int[])),
    unnest(CAST(CAST($3 AS text) AS text[])),
    jsonb_array_elements(CAST(CAST($4 AS text) AS jsonb)),
    unnest(CAST(CAST($5 AS text) AS text[])),
    unnest(CAST(CAST($6 AS text) AS int[])),
    unnest(CAST(CAST($7 AS text) AS float8[])),
    unnest(CAST(CAST($8 AS text) AS float8[])),
    unnest(CAST(CAST($9 AS text) AS text[])),
    unnest(CAST(CAST($10 AS text) AS text[])),
    unnest(CAST(CAST($11 AS text) AS float8[]))
  ) WITH ORDINALITY AS row (fsm, version, step, state, queue, priority, delay_ms, at_ms,
                            concurrency_key, rate_limit, weight, place)
), first AS MATERIALIZED (
  SELECT (CAST(CAST($1 AS text) AS text[]))[1] AS fsm, (CAST(CAST($2 AS text) AS int[]))[1] AS version,
         (CAST(CAST($3 AS text) AS text[]))[1] AS step, (CAST(CAST($5 AS text) AS text[]))[1] AS queue,
         (CAST(CAST($6 AS text) AS int[]))[1] AS priority, (CAST(CAST($11 AS text) AS float8[]))[1] AS weight,
         CAST(CAST($12 AS text) AS :schema.durable_status[]) AS scope
), inserted AS (
  INSERT INTO :schema.gen_durable
    (fsm, fsm_version, step, state, queue, priority, eligible_at, concurrency_key, rate_limit, weight,
     correlation_scope)
  SELECT coalesce(given.fsm, first.fsm), coalesce(given.version, first.version), coalesce(given.step, first.step),
         given.state, coalesce(given.queue, first.queue), coalesce(given.priority, first.priority),
         CASE WHEN at_ms IS NOT NULL THEN to_timestamp(at_ms / 1000.0)
              WHEN delay_ms IS NOT NULL THEN now() + delay_ms * interval '1 millisecond'
              ELSE now() END,
         concurrency_key, rate_limit, coalesce(given.weight, first.weight),
         first.scope
  FROM given CROSS JOIN first
  ORDER BY place
  RETURNING id
)
SELECT CAST(id AS text) AS id,
       CAST((SELECT count(pg_notify(CAST($13 AS text), payload))
             FROM unnest(CAST(CAST($14 AS text) AS text[])) AS payload) AS text) AS pokes
FROM inserted
