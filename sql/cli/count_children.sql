-- Runs:    `gen-durable show`.
-- Does:    counts the children of one instance by status.
-- Params:  $1 bigint, the parent.
-- Returns: status, children.
-- Locks:   nothing.
SELECT status::text AS status, count(*) AS children
FROM :schema.gen_durable
WHERE parent_id = $1::bigint
GROUP BY status
ORDER BY status
