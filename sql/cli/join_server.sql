-- Runs:    every process that uses the embedded server, on a connection that it keeps for as long.
-- Does:    counts itself in, unless somebody is stopping the server.
-- Params:  $1 bigint, the users' lock.
-- Returns: ok.
-- Locks:   the session's advisory lock $1, shared.
SELECT pg_try_advisory_lock_shared($1::bigint) AS ok
