-- Runs:    coordinator, first in the transaction that admits the next steps of chains (rows whose steps run ahead), after the
--          commits that carried them there.      Index: gen_durable_pkey.
-- Does:    locks the rows that are still under the claim and at the visit that asks, and says what limits their next steps. A
--          row whose gate has admitted it already (an answer that was lost) asks for no slot again.
-- Params:  $1 ids bigint[], $2 claims text[], $3 visits int[] (same length).
-- Returns: per row: id; gate, the key of the gate whose slot it has to draw; rate and weight. A row that is absent is lost, or
--          locked by somebody.
-- Locks:   gen_durable, FOR NO KEY UPDATE, id ascending, SKIP LOCKED: never waits.
SELECT g.id, CASE WHEN g.concurrency_shard = -1 THEN g.concurrency_key END AS gate, g.rate_limit AS rate, g.weight
FROM unnest($1::bigint[], $2::text[], $3::int[]) AS h (id, claim, visit)
JOIN :schema.gen_durable AS g ON g.id = ANY (ARRAY[h.id])
WHERE g.locked_by = h.claim AND g.status::text = 'executing' AND g.visit = h.visit
ORDER BY g.id + 0
FOR NO KEY UPDATE OF g SKIP LOCKED
