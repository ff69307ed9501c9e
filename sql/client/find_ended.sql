-- Runs:    a client whose signal found no live target and whose insert found the key occupied.   Index: gen_durable_pkey.
-- Does:    says whether the occupant has ended and keeps its key.
-- Params:  all text: $1 id, $2 correlation key.
-- Returns: its id; no row when it lives, is gone, or has left the key.
-- Locks:   nothing.
SELECT CAST(id AS text) AS id
FROM :schema.gen_durable
WHERE id = CAST(CAST($1 AS text) AS bigint) AND correlation_guard = CAST($2 AS text)
  AND CAST(status AS text) IN ('done', 'failed')
