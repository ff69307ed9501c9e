-- Runs:    coordinator, last in the transaction that admits the next steps of chains, over rows that lock_chained has locked.
--          Index: gen_durable_pkey.
-- Does:    notes which shard of its gate each row holds a slot of, in place of the -1 that holds none.
-- Params:  $1 ids bigint[], $2 claims text[], $3 shards int[] (same length).
-- Returns: the id of each row that was stamped.
-- Locks:   nothing new.
-- The status stays what it is (why it is set: sql/flusher/apply_inline.sql).
UPDATE :schema.gen_durable AS g SET status = 'executing', concurrency_shard = h.shard
FROM unnest($1::bigint[], $2::text[], $3::int[]) AS h (id, claim, shard)
WHERE g.id = ANY (ARRAY[h.id]) AND g.locked_by = h.claim AND g.status::text = 'executing' AND g.concurrency_shard = -1
RETURNING g.id
