-- Runs:    picker, before it hands out rows whose loss must be known even when the whole node goes: steps that must not
--          run again after a crash, and rows that were lost before.      Index: gen_durable_pkey.
-- Does:    notes that user code of these rows begins.
-- Params:  $1 ids bigint[], $2 claims text[] (same length).
-- Returns: ids and claims of those that are still ours; the others are not to be started.
-- Locks:   its own rows, FOR NO KEY UPDATE SKIP LOCKED: one that a user has locked is left out, and asked for again.
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
   SET status = 'executing', started_at = clock_timestamp()
 WHERE g.id = ANY (ARRAY(SELECT mine.id FROM mine))
RETURNING g.id, g.locked_by AS claim
