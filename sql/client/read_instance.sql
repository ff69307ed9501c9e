-- Runs:    a client that shows one instance.                     Indexes: gen_durable_pkey, signals_target.
-- Does:    reads everything about it, and its unread signals, oldest first, at most 1,000.
-- Params:  $1 text: id.
-- Returns: summary, a JSON object; state, result and inbox, JSON; scope, a JSON array.
-- Locks:   nothing.
SELECT CAST(json_build_object(
         'id', g.id, 'fsm', g.fsm, 'version', g.fsm_version, 'step', g.step, 'status', g.status, 'queue', g.queue,
         'priority', g.priority, 'attempt', g.attempt, 'visit', g.visit, 'crashes', g.crashes, 'error', g.last_error,
         'eligibleAtMs', extract(epoch FROM g.eligible_at) * 1000, 'correlationKey', g.correlation_key,
         'concurrencyKey', g.concurrency_key, 'awaits', g.awaits,
         'awaitDeadlineMs', extract(epoch FROM g.await_deadline) * 1000, 'childrenPending', g.children_pending,
         'parentId', g.parent_id, 'cancelRequested', g.cancel_requested, 'cancelReason', g.cancel_reason,
         'lockedBy', g.locked_by, 'insertedAtMs', extract(epoch FROM g.inserted_at) * 1000,
         'updatedAtMs', extract(epoch FROM g.updated_at) * 1000) AS text) AS summary,
       CAST(g.state AS text) AS state, CAST(g.result AS text) AS result,
       CAST(json_build_object(
         'correlationScope', g.correlation_scope, 'rateLimit', g.rate_limit, 'weight', g.weight, 'wokenBy', g.wake_reason,
         'parentVisit', g.parent_visit, 'reaps', g.reaps,
         'leaseExpiresAtMs', extract(epoch FROM g.lease_expires_at) * 1000) AS text) AS details,
       CAST(coalesce((
         SELECT json_agg(json_build_object('id', s.id, 'name', s.name, 'payload', s.payload,
                                           'insertedAtMs', extract(epoch FROM s.inserted_at) * 1000) ORDER BY s.id)
         FROM (SELECT * FROM :schema.signals WHERE target_id = g.id AND consumed_at IS NULL ORDER BY id LIMIT 1000) AS s
       ), '[]') AS text) AS inbox
FROM :schema.gen_durable g
WHERE g.id = CAST(CAST($1 AS text) AS bigint)
