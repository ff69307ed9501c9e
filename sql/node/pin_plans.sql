-- Runs:    connections that send hot statements, once, when they open (not behind a transaction pooler: there nothing is
--          planned ahead).
-- Does:    keeps their plans on the indexes, and reads those in their order. A plan made while a table was empty scans it whole;
--          kept as the generic plan it would do so after the table has grown. A bitmap has no order: where a planner
--          believes in a small table it reads all that matches and sorts it, for the first few.
-- Params:  none.
-- Returns: nothing of use.
-- Locks:   nothing.
SELECT set_config(name, 'off', false)
FROM (VALUES ('enable_seqscan'), ('enable_bitmapscan')) AS setting (name)
