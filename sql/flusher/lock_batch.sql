-- Runs:    flusher, first in every flush.       Index: gen_durable_pkey.
-- Does:    locks the rows of a batch and the parents of its terminal children, and says what stands in them. The update
--          is a later statement: a row that was changed a moment ago can be locked here, and yet be invisible to an
--          update in this same statement, by its snapshot.
-- Params:  $1 ids bigint[], $2 claims text[], $3 visits int[]; one entry a row. A parent's claim is NULL.
-- Returns: one row for all that is plain: places, where in the arrays those stand that are locked, parents or rows whose guard
--          holds, with nothing more to say about them, as "1,2,5"; xid, this transaction. And a row for each other one
--          that could be locked: n, its place; held, whether our guard holds under the lock; gate and shard of the slot
--          it holds; enters, whether its correlation key is not guarded now but may be after the transition; cancelled
--          with the reason and the step that cleans up; what a commit sent twice is recognised by: visit, attempt, and
--          whether the claim is ours.
-- Locks:   gen_durable, FOR NO KEY UPDATE, id ascending, SKIP LOCKED: never waits.
WITH locked AS MATERIALIZED (
  SELECT b.n,
         g.locked_by = b.claim AND g.status::text = 'executing' AND g.visit = b.visit AS held,
         g.concurrency_key, g.concurrency_shard, g.cancel_requested, g.cancel_reason, g.fsm, g.fsm_version,
         g.correlation_key IS NOT NULL AND g.correlation_guard IS NULL AND g.correlation_scope <> '{}' AS enters,
         g.visit, g.attempt, g.locked_by = b.claim AS ours, b.claim IS NULL AS is_parent
  FROM unnest($1::bigint[], $2::text[], $3::int[]) WITH ORDINALITY AS b (id, claim, visit, n)
  JOIN :schema.gen_durable AS g ON g.id = b.id
  ORDER BY g.id
  FOR NO KEY UPDATE OF g SKIP LOCKED
), told AS MATERIALIZED (
  SELECT l.*, l.is_parent OR l.held AND NOT l.enters AND NOT l.cancel_requested AND l.concurrency_shard IS NULL AS plain
  FROM locked l
)
SELECT string_agg(n::text, ',') AS places, pg_current_xact_id()::text AS xid,
       NULL::int AS n, NULL::boolean AS held, NULL::text AS gate, NULL::int AS shard, NULL::boolean AS enters,
       NULL::text AS cancelled, NULL::text AS on_cancel, NULL::int AS visit, NULL::int AS attempt, NULL::boolean AS ours
FROM told
WHERE plain
UNION ALL
SELECT NULL, NULL, CAST(t.n AS int), t.held,
       CASE WHEN t.concurrency_shard >= 0 THEN t.concurrency_key END, t.concurrency_shard, t.enters,
       CASE WHEN t.cancel_requested THEN coalesce(t.cancel_reason, '') END,
       CASE WHEN t.cancel_requested THEN
         (SELECT f.on_cancel FROM :schema.fsms f WHERE f.name = t.fsm AND f.version = t.fsm_version) END,
       t.visit, t.attempt, t.ours
FROM told t
WHERE plain IS NOT TRUE
