-- Runs:    `db stop`, when the server is in use.
-- Does:    counts the processes that use the embedded server.
-- Params:  $1 bigint, the users' lock.
-- Returns: users.
-- Locks:   nothing.
SELECT count(*)::int AS users FROM pg_locks
WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock' AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = $1::bigint
