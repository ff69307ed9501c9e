-- Runs:    collector, over the ids that find_collectable gave.      Index: gen_durable_pkey.
-- Does:    deletes instances that are still terminal; their signals go with them.
-- Params:  $1 ids bigint[].
-- Returns: rows: how many were deleted.
-- Locks:   gen_durable, FOR UPDATE, id ascending, SKIP LOCKED: a row that somebody has locked goes with a later sweep.
WITH ended AS (
  SELECT g.id FROM :schema.gen_durable g
   WHERE g.id = ANY ($1::bigint[]) AND g.status::text IN ('done', 'failed')
   ORDER BY g.id
     FOR UPDATE SKIP LOCKED
),
deleted AS (
  DELETE FROM :schema.gen_durable g
   WHERE g.id = ANY (ARRAY(SELECT ended.id FROM ended))
  RETURNING g.id
)
SELECT count(*)::int AS rows FROM deleted
