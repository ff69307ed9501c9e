-- Runs:    reaper, first in its transaction; repeated while batches come back full.      Index: gen_durable_lease.
-- Does:    finds and locks executing rows whose lease has run out, or whose node is dead.
-- Params:  $1 dead nodes' ids text[] or NULL (rows whose leases have run out), $2 rows at most int, $3 as of timestamptz
--          or NULL (now).
-- Returns: per row: id, queue, gate and shard of the slot it holds, and what a cancellation needs: cancelled, claim, fsm,
--          version, step, visit, attempt, parent_id, parent_visit.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED: a row that somebody has locked returns with a later sweep.
SELECT g.id, g.queue, CASE WHEN g.concurrency_shard >= 0 THEN g.concurrency_key END AS gate, g.concurrency_shard AS shard,
       g.cancel_requested AS cancelled, g.locked_by AS claim, g.fsm, g.fsm_version AS version, g.step, g.visit, g.attempt,
       g.parent_id, g.parent_visit
  FROM :schema.gen_durable g
 WHERE g.status = 'executing'
   AND CASE WHEN $1::text[] IS NULL THEN g.lease_expires_at < coalesce($3::timestamptz, now())
            ELSE split_part(g.locked_by, '/', 1) = ANY ($1::text[]) END
 ORDER BY g.lease_expires_at
 LIMIT $2::int
   FOR NO KEY UPDATE SKIP LOCKED
