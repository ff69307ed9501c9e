-- Runs:    picker, last in the transaction of a pick where limits can apply.          Index: gen_durable_pkey.
-- Does:    claims the admitted rows: runnable -> executing, with an owner, a lease, and the shard of the slot they hold. The
--          id is an element of an array of one, which only the key reaches, whatever the planner has seen.
-- Params:  $1 ids bigint[], $2 shards int[] (NULL: no slot), $3 claim text (<node>/<pick>), $4 lease ms float8.
-- Returns: the claimed rows, with what their steps need.
-- Locks:   rows that lock_candidates has locked. Entries of gen_durable_concurrency_active in the order of the keys (the
--          joins of the session are nested loops, so that the ordered side leads): it may wait there for a pick that
--          claims another row of the key, under the lock timeout, and is refused if that pick commits.
WITH b AS MATERIALIZED (
  SELECT b.id, b.shard FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY AS b (id, shard, n) ORDER BY b.n
)
UPDATE :schema.gen_durable g
   SET status = 'executing', locked_by = $3::text, concurrency_shard = b.shard,
       lease_expires_at = now() + $4::float8 * interval '1 millisecond', updated_at = now()
  FROM b
 WHERE g.id = ANY (ARRAY[b.id])
RETURNING g.id, g.fsm, g.fsm_version AS version, g.step, g.state, g.attempt, g.visit, g.crashes, g.reaps, g.priority,
          g.eligible_at::text AS eligible_at, g.awaits, g.await_seen, g.wake_reason, g.parent_id, g.parent_visit, g.cancel_reason,
          g.concurrency_key
