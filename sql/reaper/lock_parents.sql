-- Runs:    reaper, first in the transaction that wakes orphaned parents.      Index: gen_durable_pkey.
-- Does:    locks them, so that no child can end while they are looked at again.
-- Params:  $1 ids bigint[].
-- Returns: the ids that could be locked and still wait for children.
-- Locks:   gen_durable, FOR NO KEY UPDATE, id ascending, SKIP LOCKED.
SELECT p.id FROM :schema.gen_durable p
 WHERE p.id = ANY ($1::bigint[]) AND p.status::text = 'awaiting_children'
 ORDER BY p.id
   FOR NO KEY UPDATE SKIP LOCKED
