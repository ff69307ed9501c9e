-- Runs:    a client that inserts by an FSM's name, without its code.
-- Does:    reads what the nodes have catalogued about it.
-- Params:  all text: $1 name, $2 version or NULL for the newest.
-- Returns: name, version, queue, initial_step; no row when no node knows it.
-- Locks:   nothing.
SELECT name, CAST(version AS text) AS version, queue, initial_step
FROM :schema.fsms
WHERE name = CAST($1 AS text) AND version = coalesce(CAST(CAST($2 AS text) AS int), version)
ORDER BY fsms.version DESC
LIMIT 1
