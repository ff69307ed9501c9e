-- Runs:    coordinator, for chains whose thread is gone and whose current step must end in `handle`.      Index: gen_durable_pkey.
-- Does:    reads what the last commits have made of rows that are still under their claims.
-- Params:  $1 ids bigint[], $2 claims text[] (same length).
-- Returns: per row: id, step, state, attempt, visit, crashes, reaps, awaits, await_seen, wake_reason, cancel_reason. A row that
--          is absent is lost.
-- Locks:   nothing.
SELECT g.id, g.step, g.state, g.attempt, g.visit, g.crashes, g.reaps, g.awaits, g.await_seen, g.wake_reason, g.cancel_reason
FROM unnest($1::bigint[], $2::text[]) AS h (id, claim)
CROSS JOIN LATERAL (
  SELECT * FROM :schema.gen_durable g
   WHERE g.id = h.id AND g.locked_by = h.claim AND g.status::text = 'executing'
   OFFSET 0
) g
