-- Runs:    a client that lists instances, when a stretch of the table held less than a page.   Index: gen_durable_pkey.
-- Does:    finds where the stretch ends.
-- Params:  all text: $1 only ids below this one, or NULL; $2 how many rows the stretch has.
-- Returns: id of its last row; no row when the table ends before.
-- Locks:   nothing.
SELECT CAST(g.id AS text) AS id
FROM :schema.gen_durable g
WHERE g.id < coalesce(CAST(CAST($1 AS text) AS bigint), 9223372036854775807)
ORDER BY g.id DESC
OFFSET CAST(CAST($2 AS text) AS bigint) - 1
LIMIT 1
