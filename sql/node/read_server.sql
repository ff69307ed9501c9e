-- Runs:    whoever connects to a URL with several servers, on each of them, at the first connection and after a loss.
-- Does:    says whether the server takes writes, and names its cluster and timeline: after a failover the old primary has the
--          older one.
-- Params:  none.
-- Returns: in_recovery, system, timeline (null in recovery).
-- Locks:   nothing.
SELECT pg_is_in_recovery() AS in_recovery,
       (SELECT system_identifier::text FROM pg_control_system()) AS system,
       CASE WHEN NOT pg_is_in_recovery()
            THEN ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int END AS timeline
