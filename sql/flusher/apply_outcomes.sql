-- Runs:    flusher, once a flush, over the rows that lock_batch found held.
--          Indexes: gen_durable_pkey, signals_target.
-- Does:    applies every transition of the batch. A park looks once more for a matching signal that it has not seen: the
--          row is locked since an earlier statement, so a delivery is either visible here or waits for our commit and
--          then finds the parked row. The status is compared as text: a planner that sees the partial index on
--          executing rows would join the batch to that whole set. And the id is an element of an array of one: an equality can be
--          joined from either side, and a planner that has seen a small table reads the whole of it for the batch.
-- Params:  arrays, one entry a row: $1 ids bigint[], $2 claims text[], $3 visits int[], $4 kinds text[] (next, inline,
--          retry, await, children, done, stop), $5 attempts int[], $6 steps text[] and $7 states text[] (JSON; NULL keeps),
--          $8 results text[] (JSON), $9 errors text[], $10 delays float8[] ms, $11 instants float8[] (ms since 1970),
--          $12 rate limits text[], $13 weights float8[], $14 concurrency keys text[], $15 whether to set the key
--          boolean[], $16 awaited names text[], $17 seen signals text[] (array literals), $18 children that landed int[].
--          $19 float8: lease of inline rows, ms; at least three quarters of it are left afterwards. $20 timestamptz: as of when, NULL: now.
-- Returns: per queue: rows, how many were updated; due_ms, how soon the first runnable one is due; deadline_ms, the first
--          await deadline; inbox, whether a row that is done has unread signals; inboxes, as "1,2,5": the inline rows that
--          have signals (the consumed ones still count).
-- Locks:   the rows that lock_batch has locked. It may wait in gen_durable_correlation for another transaction that
--          enters the same key, under the lock timeout.
WITH b AS MATERIALIZED (
  SELECT u.*,
         CASE u.kind
           WHEN 'await' THEN
             (SELECT true FROM :schema.signals s
              WHERE s.target_id = u.id AND s.consumed_at IS NULL AND s.name = ANY (CAST(u.names AS text[]))
                AND s.id <> ALL (CAST(u.seen AS bigint[])) LIMIT 1)
           WHEN 'done' THEN
             (SELECT true FROM :schema.signals s WHERE s.target_id = u.id AND s.consumed_at IS NULL LIMIT 1)
           WHEN 'inline' THEN
             (SELECT true FROM :schema.signals s WHERE s.target_id = u.id AND s.consumed_at IS NULL LIMIT 1)
         END AS found,
         coalesce(to_timestamp(u.at_ms / 1000), coalesce($20::timestamptz, now()) + u.delay_ms * interval '1 ms') AS due
  FROM unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[],
              $10::float8[], $11::float8[], $12::text[], $13::float8[], $14::text[], $15::boolean[], $16::text[], $17::text[],
              $18::int[])
       AS u (id, claim, visit, kind, attempt, step, state, result, error, delay_ms, at_ms, rate_limit, weight,
             concurrency_key, sets_key, names, seen, landed)
), updated AS (
  UPDATE :schema.gen_durable AS g SET
    status = CAST(CASE b.kind
        WHEN 'inline' THEN 'executing'
        WHEN 'await' THEN CASE WHEN b.found THEN 'runnable' ELSE 'awaiting_signal' END
        WHEN 'children' THEN CASE WHEN b.landed > 0 THEN 'awaiting_children' ELSE 'runnable' END
        WHEN 'done' THEN 'done'
        WHEN 'stop' THEN 'failed'
        ELSE 'runnable' END AS :schema.durable_status),
    step = coalesce(b.step, g.step),
    state = coalesce(CAST(b.state AS jsonb), g.state),
    attempt = b.attempt,
    visit = CASE b.kind WHEN 'retry' THEN b.visit ELSE least(b.visit, 2147483646) + 1 END,
    crashes = 0,
    reaps = 0,
    started_at = NULL,
    result = CASE b.kind WHEN 'done' THEN CAST(b.result AS jsonb) ELSE g.result END,
    last_error = CASE b.kind WHEN 'done' THEN NULL ELSE coalesce(b.error, g.last_error) END,
    eligible_at = CASE b.kind
        WHEN 'next' THEN coalesce(b.due, $20::timestamptz, now())
        WHEN 'retry' THEN coalesce(b.due, $20::timestamptz, now())
        WHEN 'await' THEN coalesce($20::timestamptz, now())
        WHEN 'children' THEN coalesce($20::timestamptz, now())
        ELSE g.eligible_at END,
    locked_by = CASE b.kind WHEN 'inline' THEN g.locked_by END,
    -- Where nothing of an index changes, Postgres writes no index: a chain's lease is left alone while it is good, and its
    -- updated_at is that of its claim.
    lease_expires_at = CASE WHEN b.kind = 'inline' THEN
        CASE WHEN g.lease_expires_at >= coalesce($20::timestamptz, now()) + 0.75 * $19::float8 * interval '1 ms'
             THEN g.lease_expires_at ELSE coalesce($20::timestamptz, now()) + $19::float8 * interval '1 ms' END
        END,
    concurrency_key = CASE WHEN b.sets_key THEN b.concurrency_key ELSE g.concurrency_key END,
    concurrency_shard = CASE
        WHEN b.kind <> 'inline' THEN NULL
        WHEN NOT coalesce(b.sets_key, false) THEN g.concurrency_shard
        WHEN b.concurrency_key IS NULL THEN NULL
        ELSE -1 END,
    rate_limit = CASE WHEN b.kind IN ('retry', 'stop') THEN g.rate_limit ELSE b.rate_limit END,
    weight = CASE WHEN b.kind IN ('retry', 'stop') THEN g.weight ELSE coalesce(b.weight, 1) END,
    awaits = CASE b.kind
        WHEN 'await' THEN CAST(b.names AS text[])
        WHEN 'retry' THEN g.awaits
        WHEN 'stop' THEN g.awaits
        ELSE '{}' END,
    await_deadline = CASE WHEN b.kind = 'await' AND b.found IS NULL THEN b.due END,
    await_seen = CASE b.kind
        WHEN 'await' THEN CAST(b.seen AS bigint[])
        WHEN 'retry' THEN g.await_seen
        WHEN 'stop' THEN g.await_seen
        ELSE '{}' END,
    wake_reason = CASE b.kind
        WHEN 'await' THEN CASE WHEN b.found THEN 'signal' END
        WHEN 'children' THEN CASE WHEN b.landed > 0 THEN NULL ELSE 'children' END
        WHEN 'retry' THEN g.wake_reason
        WHEN 'stop' THEN g.wake_reason END,
    children_pending = CASE b.kind WHEN 'children' THEN coalesce(b.landed, 0) ELSE 0 END,
    cancel_requested = false,
    updated_at = CASE b.kind WHEN 'inline' THEN g.updated_at ELSE coalesce($20::timestamptz, now()) END
  FROM b
  WHERE g.id = ANY (ARRAY[b.id]) AND g.locked_by = b.claim AND g.status::text = 'executing' AND g.visit = b.visit
  RETURNING g.id, g.queue, g.status, g.eligible_at, g.await_deadline, b.kind = 'done' AND b.found AS inbox,
            b.kind = 'inline' AND b.found AS has_inbox
)
SELECT queue, CAST(count(*) AS int) AS rows,
       CAST(extract(epoch FROM min(eligible_at) FILTER (WHERE status = 'runnable')
         - coalesce($20::timestamptz, now())) * 1000 AS float8) AS due_ms,
       CAST(extract(epoch FROM min(await_deadline) - coalesce($20::timestamptz, now())) * 1000 AS float8) AS deadline_ms,
       coalesce(bool_or(inbox), false) AS inbox,
       string_agg(CAST(id AS text), ',') FILTER (WHERE has_inbox) AS inboxes
FROM updated
GROUP BY queue
