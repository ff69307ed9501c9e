-- Runs:    coordinator (lease heartbeat), a batch of held rows at a time.      Index: gen_durable_pkey.
-- Does:    extends the leases of rows that are still under the claim that holds them.
-- Params:  $1 ids bigint[], $2 claims text[] (same length), $3 lease ms float8.
-- Returns: id, claim and cancel_requested of each extended row (an instance may be held under two claims, one of them lost). A row that is absent is lost, or locked by somebody.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED: it never waits for a user's lock.
WITH mine AS (
  SELECT g.id
    FROM unnest($1::bigint[], $2::text[]) AS h (id, claim)
    CROSS JOIN LATERAL (
      SELECT g.id FROM :schema.gen_durable g
       WHERE g.id = h.id AND g.locked_by = h.claim AND g.status::text = 'executing'
         FOR NO KEY UPDATE SKIP LOCKED
    ) g
)
UPDATE :schema.gen_durable g
   -- The status stays what it is (why it is set: sql/flusher/apply_inline.sql).
   SET status = 'executing', lease_expires_at = now() + $3::float8 * interval '1 millisecond'
 WHERE g.id = ANY (ARRAY(SELECT mine.id FROM mine))
RETURNING g.id, g.locked_by AS claim, g.cancel_requested
