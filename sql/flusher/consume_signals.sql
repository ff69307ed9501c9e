-- Runs:    flusher, after apply_outcomes, only when the batch consumes.       Index: signals_pkey, signals_target.
-- Does:    consumes the awaited signals that progressing rows received, and the whole inbox of rows that are done. A
--          signal with a dedup key stays without its payload, so that a redelivery is still a duplicate. Ids are elements of
--          arrays of one, which only a key reaches, whatever the planner has seen.
-- Params:  $1 targets bigint[] and $2 signal ids bigint[], pairs; $3 ids of rows that are done bigint[].
--          $4 timestamptz: as of when, NULL: now.
-- Returns: nothing.
-- Locks:   signals; their instances are locked by lock_batch, and whoever delivers locks the instance first.
WITH read AS MATERIALIZED (
  SELECT s.id, s.dedup_key IS NOT NULL AS stays
  FROM unnest($1::bigint[], $2::bigint[]) AS b (target_id, id)
  JOIN :schema.signals s ON s.id = ANY (ARRAY[b.id]) AND s.target_id = b.target_id
  WHERE s.consumed_at IS NULL
  UNION
  SELECT s.id, s.dedup_key IS NOT NULL
  FROM unnest($3::bigint[]) AS d (target_id)
  JOIN :schema.signals s ON s.target_id = ANY (ARRAY[d.target_id])
  WHERE s.consumed_at IS NULL
), kept AS (
  UPDATE :schema.signals s SET consumed_at = coalesce($4::timestamptz, now()), payload = NULL
  FROM read r WHERE s.id = ANY (ARRAY[r.id]) AND r.stays
)
DELETE FROM :schema.signals s USING read r WHERE s.id = ANY (ARRAY[r.id]) AND NOT r.stays
