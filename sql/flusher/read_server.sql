-- Runs:    flusher, when its connection opens.
-- Does:    names the server and its timeline: after a failover a transaction id says nothing.
-- Params:  none.
-- Returns: server.
-- Locks:   nothing.
SELECT (SELECT system_identifier::text FROM pg_control_system()) || '/' ||
       substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) AS server
