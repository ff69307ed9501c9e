-- Runs:    connections that pick, once, when they open (not behind a transaction pooler: there nothing is planned ahead).
-- Does:    keeps the plans of a pick on the indexes, and plans each statement once. Planning a claim anew by its values
--          costs more than claiming a hundred rows, and there is nothing to choose: the scan follows the pick order.
-- Params:  none.
-- Returns: nothing of use.
-- Locks:   nothing.
SELECT set_config(name, value, false)
FROM (VALUES ('enable_seqscan', 'off'), ('plan_cache_mode', 'force_generic_plan')) AS setting (name, value)
