-- Runs:    reaper, every half node timeout, and when a node's death is due.
-- Does:    reads who else is registered, and for how long each has been silent.
-- Params:  $1 this node's id text.
-- Returns: id, hostname, boot_id, pid, silent_ms.
-- Locks:   nothing.
SELECT n.id, n.hostname, n.boot_id, n.pid,
       (extract(epoch FROM clock_timestamp() - n.heartbeat_at) * 1000)::float8 AS silent_ms
  FROM :schema.nodes n
 WHERE n.id <> $1::text
