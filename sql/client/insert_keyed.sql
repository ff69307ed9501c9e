-- Runs:    a client, for one row or a chunk of many of which some have a correlation key; alone, or inside the caller's
--          transaction.
-- Does:    inserts instances and pokes their queues. A row whose correlation key is occupied is left out. The keys are
--          inserted in order, so that two callers with the same new keys meet in one order and do not deadlock.
-- Params:  all text, one entry a row: $1 fsm[], $2 version[], $3 step[], $4 states (one JSON array), $5 queue[],
--          $6 priority[], $7 delay_ms[], $8 at_ms[], $9 concurrency_key[], $10 rate_limit[], $11 weight[],
--          $12 correlation_key[], $13 correlation_scope[] (each an array's text); then $14 channel, $15 payloads[].
--          A column that is the same in every row may have one entry, one without values none (core/src/client/text.ts).
-- Returns: id, correlation_key and whether it is guarded, of each new row. Rows without a key get ascending ids in the
--          order they were given; so do rows of one key.
-- Locks:   the new rows and their entries in gen_durable_correlation, ordered by correlation_key.
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
    unnest(CAST(CAST($11 AS text) AS float8[])),
    unnest(CAST(CAST($12 AS text) AS text[])),
    unnest(CAST(CAST($13 AS text) AS text[]))
  ) WITH ORDINALITY AS row (fsm, version, step, state, queue, priority, delay_ms, at_ms,
                            concurrency_key, rate_limit, weight, correlation_key, scope, place)
), first AS MATERIALIZED (
  SELECT (CAST(CAST($1 AS text) AS text[]))[1] AS fsm, (CAST(CAST($2 AS text) AS int[]))[1] AS version,
         (CAST(CAST($3 AS text) AS text[]))[1] AS step, (CAST(CAST($5 AS text) AS text[]))[1] AS queue,
         (CAST(CAST($6 AS text) AS int[]))[1] AS priority, (CAST(CAST($11 AS text) AS float8[]))[1] AS weight,
         CAST((CAST(CAST($13 AS text) AS text[]))[1] AS :schema.durable_status[]) AS scope
), inserted AS (
  INSERT INTO :schema.gen_durable
    (fsm, fsm_version, step, state, queue, priority, eligible_at, concurrency_key, rate_limit, weight,
     correlation_key, correlation_scope)
  SELECT coalesce(given.fsm, first.fsm), coalesce(given.version, first.version), coalesce(given.step, first.step),
         given.state, coalesce(given.queue, first.queue), coalesce(given.priority, first.priority),
         CASE WHEN at_ms IS NOT NULL THEN to_timestamp(at_ms / 1000.0)
              WHEN delay_ms IS NOT NULL THEN now() + delay_ms * interval '1 millisecond'
              ELSE now() END,
         concurrency_key, rate_limit, coalesce(given.weight, first.weight),
         correlation_key,
         coalesce(CAST(given.scope AS :schema.durable_status[]), first.scope)
  FROM given CROSS JOIN first
  ORDER BY correlation_key, place
  ON CONFLICT (correlation_guard) WHERE correlation_guard IS NOT NULL DO NOTHING
  RETURNING id, correlation_key, correlation_guard
)
SELECT CAST(id AS text) AS id,
       correlation_key,
       CASE WHEN correlation_guard IS NOT NULL THEN 'yes' ELSE 'no' END AS guarded,
       CAST((SELECT count(pg_notify(CAST($14 AS text), payload))
             FROM unnest(CAST(CAST($15 AS text) AS text[])) AS payload) AS text) AS pokes
FROM inserted
