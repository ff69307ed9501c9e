-- Runs:    a client that lists instances.                                                 Index: gen_durable_pkey.
-- Does:    reads one page of a bounded stretch of the table, newest first. The bound keeps a filter that matches nothing
--          from reading millions of rows in one statement; the client goes on where the stretch ends.
-- Params:  all text: $1 only ids below this one, or NULL; $2 how many; $3 how many rows to look at; filters, each or NULL:
--          $4 statuses[], $5 fsm, $6 queue, $7 step, $8 correlation key, $9 parent id.
-- Returns: summary, a JSON object, newest first.
-- Locks:   nothing.
SELECT CAST(json_build_object(
         'id', g.id, 'fsm', g.fsm, 'version', g.fsm_version, 'step', g.step, 'status', g.status, 'queue', g.queue,
         'priority', g.priority, 'attempt', g.attempt, 'visit', g.visit, 'crashes', g.crashes, 'error', g.last_error,
         'eligibleAtMs', extract(epoch FROM g.eligible_at) * 1000, 'correlationKey', g.correlation_key,
         'concurrencyKey', g.concurrency_key, 'awaits', g.awaits,
         'awaitDeadlineMs', extract(epoch FROM g.await_deadline) * 1000, 'childrenPending', g.children_pending,
         'parentId', g.parent_id, 'cancelRequested', g.cancel_requested, 'cancelReason', g.cancel_reason,
         'lockedBy', g.locked_by, 'insertedAtMs', extract(epoch FROM g.inserted_at) * 1000,
         'updatedAtMs', extract(epoch FROM g.updated_at) * 1000) AS text) AS summary
FROM (
  SELECT *
  FROM :schema.gen_durable
  WHERE id < coalesce(CAST(CAST($1 AS text) AS bigint), 9223372036854775807)
  ORDER BY id DESC
  LIMIT CAST(CAST($3 AS text) AS bigint)
) AS g
WHERE true
  AND (CAST($4 AS text) IS NULL OR CAST(g.status AS text) = ANY (CAST(CAST($4 AS text) AS text[])))
  AND (CAST($5 AS text) IS NULL OR g.fsm = CAST($5 AS text))
  AND (CAST($6 AS text) IS NULL OR g.queue = CAST($6 AS text))
  AND (CAST($7 AS text) IS NULL OR g.step = CAST($7 AS text))
  AND (CAST($8 AS text) IS NULL OR g.correlation_key = CAST($8 AS text))
  AND (CAST($9 AS text) IS NULL OR g.parent_id = CAST(CAST($9 AS text) AS bigint))
LIMIT CAST(CAST($2 AS text) AS bigint)
