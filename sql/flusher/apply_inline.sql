-- Runs:    flusher, in place of apply_outcomes for the rows of a batch whose next step runs on under the same claim, without a limit
--          or a key of its own, where they are many.       Indexes: gen_durable_pkey, signals_target.
-- Does:    moves the instances exactly as apply_outcomes moves those that run on. No indexed column changes: Postgres writes no
--          index where the new version finds room in its page. The status is set to what it is: Postgres 18 prepares generated
--          columns anew for each row of an update that changes none of what they are made of.
-- Params:  $1 ids bigint[], $2 claims text[], all that the batch knows: lock_batch has compared each row's own. $3 text, a JSON
--          object: by id [step], or [step, state] where the state changes; it is read once for all.
--          $4 float8: the lease, ms; at least three quarters of it are left afterwards. $5 timestamptz: as of when, NULL: now.
-- Returns: rows, how many were updated; inboxes, as "1,2,5": those that have signals (the consumed ones still count).
-- Locks:   the rows that lock_batch has locked.
WITH given AS MATERIALIZED (SELECT CAST($3::text AS jsonb) AS moves), updated AS (
  UPDATE :schema.gen_durable AS g SET
    status = 'executing', step = (SELECT given.moves FROM given) -> CAST(g.id AS text) ->> 0,
    state = coalesce((SELECT given.moves FROM given) -> CAST(g.id AS text) -> 1, g.state),
    attempt = 0, visit = least(g.visit, 2147483646) + 1, crashes = 0, reaps = 0, started_at = NULL,
    lease_expires_at = CASE
      WHEN g.lease_expires_at >= coalesce($5::timestamptz, now()) + 0.75 * $4::float8 * interval '1 ms' THEN g.lease_expires_at
      ELSE coalesce($5::timestamptz, now()) + $4::float8 * interval '1 ms' END,
    rate_limit = NULL, weight = 1, awaits = '{}', await_deadline = NULL, await_seen = '{}', wake_reason = NULL,
    children_pending = 0, cancel_requested = false
  WHERE g.id = ANY ($1::bigint[]) AND g.locked_by = ANY ($2::text[]) AND g.status::text = 'executing'
  RETURNING g.id, (SELECT true FROM :schema.signals s WHERE s.target_id = g.id AND s.consumed_at IS NULL LIMIT 1) AS has_inbox
)
SELECT CAST(count(*) AS int) AS rows, string_agg(CAST(id AS text), ',') FILTER (WHERE has_inbox) AS inboxes
FROM updated
