-- Runs:    a process that has just left the embedded server, or `db stop`.
-- Does:    takes the server for stopping, if nobody uses it; whoever gets it stops it.
-- Params:  $1 bigint, the users' lock.
-- Returns: ok.
-- Locks:   the session's advisory lock $1, exclusive; held until the server is down.
SELECT pg_try_advisory_lock($1::bigint) AS ok
