-- Runs:    a process that is done with the embedded server.
-- Does:    counts itself out.
-- Params:  $1 bigint, the users' lock.
-- Returns: ok.
-- Locks:   gives the session's shared advisory lock $1 back.
SELECT pg_advisory_unlock_shared($1::bigint) AS ok
