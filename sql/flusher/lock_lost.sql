-- Runs:    flusher, first in a transaction that returns rows which will not be run.       Index: gen_durable_pkey.
-- Does:    locks them and says which are still ours.
-- Params:  $1 ids bigint[], $2 claims text[]; one entry a row.
-- Returns: per row that could be locked: n, its place in the arrays; held, whether our guard holds under the lock; queue;
--          gate and shard of the slot it holds; enters, whether it may enter its correlation key; cancelled: its cancel is requested, so that its end is the cancellation,
--          which needs the rest: fsm, version, step, visit, attempt, parent_id, parent_visit.
-- Locks:   gen_durable, FOR NO KEY UPDATE, id ascending, SKIP LOCKED: never waits.
SELECT CAST(b.n AS int) AS n,
       g.locked_by IS NOT DISTINCT FROM b.claim AND g.status::text = 'executing' AS held,
       g.queue,
       CASE WHEN g.concurrency_shard >= 0 THEN g.concurrency_key END AS gate,
       g.concurrency_shard AS shard,
       g.correlation_key IS NOT NULL AND g.correlation_guard IS NULL AND g.correlation_scope <> '{}' AS enters,
       g.cancel_requested AS cancelled, g.fsm, g.fsm_version AS version, g.step, g.visit, g.attempt, g.parent_id, g.parent_visit
FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS b (id, claim, n)
JOIN :schema.gen_durable AS g ON g.id = ANY (ARRAY[b.id])
ORDER BY g.id + 0
FOR NO KEY UPDATE OF g SKIP LOCKED
