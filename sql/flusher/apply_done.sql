-- Runs:    flusher, in place of apply_outcomes for the rows of a batch that are done, where they are many: constants instead of
--          twenty columns that are decided by kind, and one walk through the key instead of a probe a row.
--          Indexes: gen_durable_pkey, signals_target.
-- Does:    ends the instances exactly as apply_outcomes ends those that are done.
-- Params:  $1 ids bigint[], $2 claims text[], all that the batch knows: lock_batch has compared each row's own. $3 text, a JSON
--          object: results by id; it is read once for all. $4 timestamptz: as of when, NULL: now.
-- Returns: rows, how many were updated; inbox, whether one of them has unread signals.
-- Locks:   the rows that lock_batch has locked. It may wait in gen_durable_correlation for another transaction that
--          enters the same key, under the lock timeout.
WITH given AS MATERIALIZED (SELECT CAST($3::text AS jsonb) AS results), updated AS (
  UPDATE :schema.gen_durable AS g SET
    status = 'done', visit = least(g.visit, 2147483646) + 1, crashes = 0, reaps = 0, started_at = NULL,
    result = (SELECT given.results FROM given) -> CAST(g.id AS text), last_error = NULL, locked_by = NULL, lease_expires_at = NULL,
    concurrency_shard = NULL, rate_limit = NULL, weight = 1, awaits = '{}', await_deadline = NULL, await_seen = '{}',
    wake_reason = NULL, children_pending = 0, cancel_requested = false, updated_at = coalesce($4::timestamptz, now())
  WHERE g.id = ANY ($1::bigint[]) AND g.locked_by = ANY ($2::text[]) AND g.status::text = 'executing'
  RETURNING (SELECT true FROM :schema.signals s WHERE s.target_id = g.id AND s.consumed_at IS NULL LIMIT 1) AS inbox
)
SELECT CAST(count(*) AS int) AS rows, coalesce(bool_or(inbox), false) AS inbox
FROM updated
