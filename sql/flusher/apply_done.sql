-- Runs:    flusher, once a flush, in place of apply_outcomes where every row of the batch is done: most batches of short
--          instances are, and constants cost a fifth less than deciding twenty columns by kind.
--          Indexes: gen_durable_pkey, signals_target.
-- Does:    ends the instances exactly as apply_outcomes ends those that are done. The status is compared as text, and the id is an
--          element of an array of one, for the reasons given there.
-- Params:  arrays, one entry a row: $1 ids bigint[], $2 claims text[], $3 visits int[], $4 attempts int[], $5 results text[] (JSON).
--          $6 timestamptz: as of when, NULL: now.
-- Returns: rows, how many were updated; inbox, whether one of them has unread signals.
-- Locks:   the rows that lock_batch has locked. It may wait in gen_durable_correlation for another transaction that
--          enters the same key, under the lock timeout.
WITH updated AS (
  UPDATE :schema.gen_durable AS g SET
    status = 'done', attempt = b.attempt, visit = least(b.visit, 2147483646) + 1, crashes = 0, reaps = 0, started_at = NULL,
    result = CAST(b.result AS jsonb), last_error = NULL, locked_by = NULL, lease_expires_at = NULL, concurrency_shard = NULL,
    rate_limit = NULL, weight = 1, awaits = '{}', await_deadline = NULL, await_seen = '{}', wake_reason = NULL,
    children_pending = 0, cancel_requested = false, updated_at = coalesce($6::timestamptz, now())
  FROM unnest($1::bigint[], $2::text[], $3::int[], $4::int[], $5::text[]) AS b (id, claim, visit, attempt, result)
  WHERE g.id = ANY (ARRAY[b.id]) AND g.locked_by = b.claim AND g.status::text = 'executing' AND g.visit = b.visit
  RETURNING (SELECT true FROM :schema.signals s WHERE s.target_id = g.id AND s.consumed_at IS NULL LIMIT 1) AS inbox
)
SELECT CAST(count(*) AS int) AS rows, coalesce(bool_or(inbox), false) AS inbox
FROM updated
