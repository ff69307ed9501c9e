-- Runs:    the main thread of a node, last in a drain that left nothing behind.
-- Does:    takes the node off the list, so that nobody has to judge it.
-- Params:  $1 text, the node's id.
-- Returns: nothing.                   Index: nodes_pkey.
-- Locks:   the node's own row.
DELETE FROM :schema.nodes WHERE id = $1::text
