-- Runs:    the listener, every few seconds, where something stands between it and the server.
-- Does:    says which server process answers: behind a pooler in transaction mode it changes.
-- Params:  none.
-- Returns: process.
-- Locks:   nothing.
SELECT pg_backend_pid() AS process
