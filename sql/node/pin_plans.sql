-- Runs:    connections that send hot statements, once, when they open (not behind a transaction pooler: there nothing is
--          planned ahead).
-- Does:    keeps their plans on the indexes. A plan made while a table was empty scans it whole; kept as the generic
--          plan it would do so after the table has grown.
-- Params:  none.
-- Returns: nothing of use.
-- Locks:   nothing.
SELECT set_config('enable_seqscan', 'off', false)
