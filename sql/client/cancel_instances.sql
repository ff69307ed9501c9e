-- Runs:    a client that cancels, after lock_family.                                      Index: gen_durable_pkey.
-- Does:    decides by what stands in each locked row. One that has ended stays. One that waits or is runnable goes to its
--          clean-up step (fsms.on_cancel) or fails; one that cleans up already is left to it. One that executes is asked:
--          its outcome, crash or lost lease becomes the cancellation. With force every one that lives fails at once, and
--          the outcome of a step that still runs finds its claim gone.
--          A row that would enter a correlation key that is occupied, or that an earlier row of the family enters, loses its
--          identity, so that its transition commits.
-- Params:  all text: $1 ids, $2 reason ('' for none), $3 'yes': force.
-- Returns: one row an instance: id; answer: cancelled, cancelling, already_done; asked: 'yes' when its running step is to be
--          asked; ready: its queue, when it is runnable now; parent and round, when it has ended; slot_key and slot_shard,
--          the gate slot that it held.
-- Locks:   rows that lock_family has locked. It may wait in gen_durable_correlation, under the lock timeout.
WITH old AS MATERIALIZED (
  SELECT g.id, g.status, g.parent_id, g.parent_visit, g.concurrency_key, g.concurrency_shard, f.on_cancel,
         CASE WHEN g.status IN ('done', 'failed') THEN 'ended'
              WHEN CAST($3 AS text) = 'yes' THEN 'fail'
              WHEN g.status = 'executing' AND (g.cancel_requested OR g.cancel_reason IS NOT NULL) THEN 'leave'
              WHEN g.status = 'executing' THEN 'ask'
              WHEN f.on_cancel IS NULL THEN 'fail'
              WHEN g.cancel_reason IS NOT NULL THEN 'leave'
              ELSE 'clean' END AS deed
  FROM :schema.gen_durable g
  LEFT JOIN :schema.fsms f ON f.name = g.fsm AND f.version = g.fsm_version
  WHERE g.id = ANY (CAST(CAST($1 AS text) AS bigint[]))
), entering AS MATERIALIZED (
  SELECT g.id, g.correlation_key AS key, row_number() OVER (PARTITION BY g.correlation_key ORDER BY g.id) AS turn
  FROM old JOIN :schema.gen_durable AS g ON g.id = old.id
  WHERE g.correlation_guard IS NULL AND g.correlation_key IS NOT NULL AND old.deed IN ('fail', 'clean')
    AND CAST(CASE old.deed WHEN 'fail' THEN 'failed' ELSE 'runnable' END AS :schema.durable_status) = ANY (g.correlation_scope)
), changed AS (
  UPDATE :schema.gen_durable AS g SET
    status = CASE old.deed WHEN 'fail' THEN 'failed' WHEN 'clean' THEN 'runnable' ELSE g.status END,
    step = CASE old.deed WHEN 'clean' THEN old.on_cancel ELSE g.step END,
    last_error = CASE WHEN old.deed = 'fail'
      THEN CASE WHEN CAST($2 AS text) = '' THEN 'cancelled' ELSE 'cancelled: ' || CAST($2 AS text) END ELSE g.last_error END,
    cancel_reason = CAST($2 AS text),
    cancel_requested = old.deed = 'ask',
    visit = CASE old.deed WHEN 'ask' THEN g.visit ELSE least(g.visit, 2147483646) + 1 END,
    attempt = CASE old.deed WHEN 'clean' THEN 0 ELSE g.attempt END,
    crashes = CASE old.deed WHEN 'ask' THEN g.crashes ELSE 0 END,
    reaps = CASE old.deed WHEN 'ask' THEN g.reaps ELSE 0 END,
    started_at = CASE old.deed WHEN 'ask' THEN g.started_at END,
    eligible_at = CASE old.deed WHEN 'clean' THEN now() ELSE g.eligible_at END,
    locked_by = CASE old.deed WHEN 'ask' THEN g.locked_by END,
    lease_expires_at = CASE old.deed WHEN 'ask' THEN g.lease_expires_at END,
    concurrency_shard = CASE old.deed WHEN 'ask' THEN g.concurrency_shard END,
    rate_limit = CASE old.deed WHEN 'clean' THEN NULL ELSE g.rate_limit END,
    weight = CASE old.deed WHEN 'clean' THEN 1 ELSE g.weight END,
    awaits = CASE old.deed WHEN 'clean' THEN '{}' ELSE g.awaits END,
    await_deadline = NULL,
    await_seen = CASE old.deed WHEN 'clean' THEN '{}' ELSE g.await_seen END,
    wake_reason = CASE old.deed WHEN 'clean' THEN NULL ELSE g.wake_reason END,
    children_pending = 0,
    correlation_scope = CASE
      WHEN (SELECT e.turn > 1 OR EXISTS (SELECT FROM :schema.gen_durable o WHERE o.correlation_guard = e.key)
              FROM entering e WHERE e.id = g.id)
      THEN '{}' ELSE g.correlation_scope END,
    updated_at = now()
  FROM old
  WHERE g.id = old.id AND old.deed IN ('fail', 'clean', 'ask')
  RETURNING g.id, g.queue
)
SELECT CAST(old.id AS text) AS id,
       CASE old.deed WHEN 'ended' THEN 'already_done' WHEN 'fail' THEN 'cancelled' ELSE 'cancelling' END AS answer,
       CASE WHEN old.deed = 'ask' THEN 'yes' ELSE 'no' END AS asked,
       CASE WHEN old.deed = 'clean' THEN changed.queue END AS ready,
       CASE WHEN old.deed = 'fail' THEN CAST(old.parent_id AS text) END AS parent,
       CASE WHEN old.deed = 'fail' THEN CAST(old.parent_visit AS text) END AS round,
       CASE WHEN old.deed = 'fail' AND old.concurrency_shard >= 0 THEN old.concurrency_key END AS slot_key,
       CASE WHEN old.deed = 'fail' AND old.concurrency_shard >= 0 THEN CAST(old.concurrency_shard AS text) END AS slot_shard
FROM old
LEFT JOIN changed ON changed.id = old.id
ORDER BY old.id
