-- Runs:    flusher, in place of apply_outcomes for the rows of a batch that go on to their next step at once, without a limit or a
--          key of their own, where they are many.       Index: gen_durable_pkey.
-- Does:    moves the instances exactly as apply_outcomes moves those that go on.
-- Params:  $1 ids bigint[], $2 claims text[], all that the batch knows: lock_batch has compared each row's own. $3 text, a JSON
--          object: by id [step], or [step, state] where the state changes; it is read once for all.
--          $4 timestamptz: as of when, NULL: now.
-- Returns: rows, how many were updated.
-- Locks:   the rows that lock_batch has locked. It may wait in gen_durable_correlation for another transaction that
--          enters the same key, under the lock timeout.
WITH given AS MATERIALIZED (SELECT CAST($3::text AS jsonb) AS moves), updated AS (
  UPDATE :schema.gen_durable AS g SET
    status = 'runnable', step = (SELECT given.moves FROM given) -> CAST(g.id AS text) ->> 0,
    state = coalesce((SELECT given.moves FROM given) -> CAST(g.id AS text) -> 1, g.state),
    attempt = 0, visit = least(g.visit, 2147483646) + 1, crashes = 0, reaps = 0, started_at = NULL,
    eligible_at = coalesce($4::timestamptz, now()), locked_by = NULL, lease_expires_at = NULL, concurrency_shard = NULL,
    rate_limit = NULL, weight = 1, awaits = '{}', await_deadline = NULL, await_seen = '{}', wake_reason = NULL,
    children_pending = 0, cancel_requested = false, updated_at = coalesce($4::timestamptz, now())
  WHERE g.id = ANY ($1::bigint[]) AND g.locked_by = ANY ($2::text[]) AND g.status::text = 'executing'
  RETURNING g.id
)
SELECT CAST(count(*) AS int) AS rows FROM updated
