-- Runs:    the main thread of a node, every two seconds, on a connection of its own.
-- Does:    says that the node lives. No row means that somebody has declared it dead.
-- Params:  $1 text, the node's id.
-- Returns: the id, or nothing.        Index: nodes_pkey.
-- Locks:   the node's own row.
UPDATE :schema.nodes SET heartbeat_at = clock_timestamp() WHERE id = $1::text RETURNING id
