-- Runs:    flusher, after read_transaction has said "committed".       Index: gen_durable_pkey.
-- Does:    looks for a row of that transaction which is still as it was before it: then the id is another transaction's by now.
-- Params:  $1 ids bigint[], $2 claims text[], $3 visits int[]; one entry a row.
-- Returns: id of one such row, or nothing.
-- Locks:   nothing.
SELECT g.id
FROM unnest($1::bigint[], $2::text[], $3::int[]) AS b (id, claim, visit)
JOIN :schema.gen_durable AS g ON g.id = ANY (ARRAY[b.id])
WHERE g.locked_by = b.claim AND g.status::text = 'executing' AND g.visit = b.visit
LIMIT 1
