-- Runs:    flusher, first in every flush.       Index: gen_durable_pkey.
-- Does:    locks the rows of a batch and the parents of its terminal children, and says what stands in them. The update
--          is a later statement: a row that was changed a moment ago can be locked here, and yet be invisible to an
--          update in this same statement, by its snapshot. The guard is compared by the caller.
-- Params:  $1 ids bigint[].
-- Returns: executing rows about which there is nothing else to say, one row a claim, visit and attempt: ids, as "1,2,5".
--          Every other row that could be locked by itself: whether it is executing; gate and shard of the slot it holds;
--          enters, whether its correlation key is not guarded now but may be after the transition; cancelled with the
--          reason and the step that cleans up. And xid, this transaction, in every row.
-- Locks:   gen_durable, FOR NO KEY UPDATE, id ascending, SKIP LOCKED: never waits.
WITH locked AS MATERIALIZED (
  SELECT g.id, g.locked_by, g.visit, g.attempt, g.status::text = 'executing' AS executing,
         g.concurrency_key, g.concurrency_shard, g.cancel_requested, g.cancel_reason, g.fsm, g.fsm_version,
         g.correlation_key IS NOT NULL AND g.correlation_guard IS NULL AND g.correlation_scope <> '{}' AS enters
  FROM :schema.gen_durable AS g
  WHERE g.id = ANY ($1::bigint[])
  ORDER BY g.id
  FOR NO KEY UPDATE OF g SKIP LOCKED
)
SELECT string_agg(id::text, ',') AS ids, locked_by, visit, attempt, true AS executing, NULL AS gate, NULL::int AS shard,
       false AS enters, NULL AS cancelled, NULL AS on_cancel, pg_current_xact_id()::text AS xid
FROM locked
WHERE executing AND concurrency_shard IS NULL AND NOT cancel_requested AND NOT enters
GROUP BY locked_by, visit, attempt
UNION ALL
SELECT l.id::text, l.locked_by, l.visit, l.attempt, l.executing,
       CASE WHEN l.concurrency_shard >= 0 THEN l.concurrency_key END, l.concurrency_shard, l.enters,
       CASE WHEN l.cancel_requested THEN coalesce(l.cancel_reason, '') END,
       CASE WHEN l.cancel_requested THEN
         (SELECT f.on_cancel FROM :schema.fsms f WHERE f.name = l.fsm AND f.version = l.fsm_version) END,
       pg_current_xact_id()::text
FROM locked l
WHERE NOT (l.executing AND l.concurrency_shard IS NULL AND NOT l.cancel_requested AND NOT l.enters)
