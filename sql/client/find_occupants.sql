-- Runs:    a client whose insert met occupied correlation keys; a statement of its own, because the row that a key
--          conflicted with can be invisible to the statement that it stopped. And one that cancels or retries by a key.
-- Does:    finds who occupies the keys.                                   Index: gen_durable_correlation.
-- Params:  $1 correlation keys, an array's text.
-- Returns: correlation_key and the occupant's id; no row for a key that is free by now.
-- Locks:   nothing.
SELECT correlation_key, CAST(id AS text) AS id
FROM (
  SELECT wanted.correlation_key,
         (SELECT g.id FROM :schema.gen_durable g WHERE g.correlation_guard = wanted.correlation_key) AS id
  FROM unnest(CAST(CAST($1 AS text) AS text[])) AS wanted (correlation_key)
) found
WHERE id IS NOT NULL
