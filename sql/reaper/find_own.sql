-- Runs:    reaper, before it judges whether a silent neighbour's process still exists.
-- Does:    reads where this node runs, as it registered itself.
-- Params:  $1 this node's id text.
-- Returns: hostname, boot_id; nothing when the node is not registered.
-- Locks:   nothing.
SELECT n.hostname, n.boot_id FROM :schema.nodes n WHERE n.id = $1::text
