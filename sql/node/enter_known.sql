-- Runs:    coordinator, before it picks, and again when its node has got a new id.
-- Does:    says which definitions the node has loaded, so that others can tell what no running node knows any more.
-- Params:  $1 text, the node's id; $2 names text[], $3 versions int[], one entry a definition.
-- Returns: nothing.                   Index: nodes_pkey.
-- Locks:   the node's own row.
UPDATE :schema.nodes SET fsms = $2::text[], fsm_versions = $3::int[] WHERE id = $1::text
