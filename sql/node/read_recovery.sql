-- Runs:    whoever connects to a URL with several servers, where the role may not ask for a server's timeline.
-- Does:    says whether the server is a standby.
-- Params:  none.
-- Returns: in_recovery.
-- Locks:   nothing.
SELECT pg_is_in_recovery() AS in_recovery
