-- Runs:    flusher, first in every flush.       Index: gen_durable_pkey.
-- Does:    locks the rows of a batch and the parents of its terminal children, and says what stands in them. The update
--          is a later statement: a row that was changed a moment ago can be locked here, and yet be invisible to an
--          update in this same statement, by its snapshot.
-- Params:  $1 ids bigint[], $2 claims text[], $3 visits int[]; one entry a row. A parent's claim is NULL.
-- Returns: per row that could be locked: n, its place in the arrays; held, whether our guard holds under the lock;
--          gate and shard of the slot it holds; enters, whether its correlation key is not guarded now but may be
--          after the transition; cancelled with the reason and the step that cleans up; where the guard does not
--          hold, what a commit sent twice is recognised by: visit, attempt, owner. xid: this transaction.
-- Locks:   gen_durable, FOR NO KEY UPDATE, id ascending, SKIP LOCKED: never waits.
SELECT CAST(b.n AS int) AS n,
       g.locked_by IS NOT DISTINCT FROM b.claim AND g.status::text = 'executing' AND g.visit = b.visit AS held,
       CASE WHEN g.concurrency_shard >= 0 THEN g.concurrency_key END AS gate,
       g.concurrency_shard AS shard,
       g.correlation_key IS NOT NULL AND g.correlation_guard IS NULL AND g.correlation_scope <> '{}' AS enters,
       CASE WHEN g.cancel_requested THEN coalesce(g.cancel_reason, '') END AS cancelled,
       CASE WHEN g.cancel_requested THEN
         (SELECT f.on_cancel FROM :schema.fsms f WHERE f.name = g.fsm AND f.version = g.fsm_version) END AS on_cancel,
       CASE WHEN g.visit <> b.visit OR g.locked_by IS DISTINCT FROM b.claim THEN g.visit END AS now_visit,
       CASE WHEN g.visit <> b.visit OR g.locked_by IS DISTINCT FROM b.claim THEN g.attempt END AS now_attempt,
       g.locked_by IS NOT DISTINCT FROM b.claim AS ours,
       pg_current_xact_id()::text AS xid
FROM unnest($1::bigint[], $2::text[], $3::int[]) WITH ORDINALITY AS b (id, claim, visit, n)
JOIN :schema.gen_durable AS g ON g.id = b.id
ORDER BY g.id
FOR NO KEY UPDATE OF g SKIP LOCKED
