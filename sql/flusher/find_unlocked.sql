-- Runs:    flusher, after lock_batch, only when some row could not be locked.       Index: gen_durable_pkey.
-- Does:    tells a row that somebody else holds locked from one that is gone.
-- Params:  $1 ids bigint[].
-- Returns: id of each row that exists.
-- Locks:   nothing.
SELECT g.id
FROM :schema.gen_durable AS g
WHERE g.id = ANY ($1::bigint[])
