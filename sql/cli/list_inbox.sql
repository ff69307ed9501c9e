-- Runs:    `gen-durable show`.
-- Does:    lists the signals of one instance that it has not consumed.
-- Params:  $1 bigint, the instance; $2 int, at most so many.
-- Returns: id, name, payload, dedup_key, inserted_at.
-- Locks:   nothing.
SELECT id, name, payload, dedup_key, inserted_at
FROM :schema.signals
WHERE target_id = $1::bigint AND consumed_at IS NULL
ORDER BY id
LIMIT $2::int
