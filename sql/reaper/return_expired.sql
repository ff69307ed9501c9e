-- Runs:    reaper, over the rows that lock_expired has locked, in the same transaction.      Index: gen_durable_pkey.
-- Does:    executing -> runnable at their old place, with an attempt and a reap more; a row on record as begun gets a
--          crash as well. The record goes: the next claim makes its own.
-- Params:  $1 ids bigint[], locked; $2 whether they lose their identity boolean: their correlation key is taken.
-- Returns: id of each row that went back.
-- Locks:   nothing new. It may wait in gen_durable_correlation, under the lock timeout.
UPDATE :schema.gen_durable g
   SET status = 'runnable', attempt = least(g.attempt, 2147483646) + 1, reaps = least(g.reaps, 2147483646) + 1,
       crashes = least(g.crashes, 2147483646) + CASE WHEN g.started_at IS NULL THEN 0 ELSE 1 END,
       started_at = NULL, locked_by = NULL, lease_expires_at = NULL, concurrency_shard = NULL,
       correlation_scope = CASE WHEN $2::boolean THEN '{}' ELSE g.correlation_scope END, updated_at = now()
 WHERE g.id = ANY ($1::bigint[]) AND g.status::text = 'executing'
RETURNING g.id
