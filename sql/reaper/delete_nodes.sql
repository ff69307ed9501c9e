-- Runs:    reaper, after the rows of dead nodes went back.
-- Does:    takes dead nodes off the list, except those that still have a row executing (somebody had it locked): the next
--          sweep comes back to them.
-- Params:  $1 ids text[], $2 silent for at least so many ms float8 (0 for a process that is known to be gone).
-- Returns: the ids that went.
-- Locks:   their rows of nodes, SKIP LOCKED.
DELETE FROM :schema.nodes n
 WHERE n.id IN (SELECT d.id FROM :schema.nodes d
                 WHERE d.id = ANY ($1::text[])
                   AND d.heartbeat_at <= clock_timestamp() - $2::float8 * interval '1 millisecond'
                   AND (SELECT true FROM :schema.gen_durable g
                         WHERE g.status = 'executing' AND split_part(g.locked_by, '/', 1) = d.id LIMIT 1) IS NULL
                   FOR UPDATE SKIP LOCKED)
RETURNING n.id
