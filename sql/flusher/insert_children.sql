-- Runs:    flusher, after lock_batch, only when the batch fans out. Before apply_outcomes, which needs the counts.
-- Does:    inserts the children of every parent of the batch. A child whose correlation key is taken is not inserted.
-- Params:  arrays, one entry a child: $1 parent ids bigint[], $2 rounds int[] (the visit that the parent parks in),
--          $3 fsms text[], $4 versions int[], $5 steps text[], $6 states text[] (JSON), $7 queues text[], $8 priorities int[],
--          $9 delays float8[] ms, $10 instants float8[] (ms since 1970), $11 concurrency keys text[], $12 rate limits text[],
--          $13 weights float8[], $14 correlation keys text[], $15 scopes text[] (array literals). $16 timestamptz: as of
--          when, NULL: now.
-- Returns: per parent and queue: landed, how many were inserted, and due_ms, how soon the first of them is due.
-- Locks:   new rows; entries of gen_durable_correlation in the order of the keys. It may wait there for another
--          transaction that inserts the same key, under the lock timeout.
WITH inserted AS (
  INSERT INTO :schema.gen_durable
    (parent_id, parent_visit, fsm, fsm_version, step, state, queue, priority, eligible_at, concurrency_key, rate_limit,
     weight, correlation_key, correlation_scope)
  SELECT c.parent_id, c.round, c.fsm, c.version, c.step, CAST(c.state AS jsonb), c.queue, coalesce(c.priority, 0),
         coalesce(to_timestamp(c.at_ms / 1000), coalesce($16::timestamptz, now()) + coalesce(c.delay_ms, 0) * interval '1 ms'),
         c.concurrency_key, c.rate_limit, coalesce(c.weight, 1), c.correlation_key,
         coalesce(CAST(c.scope AS :schema.durable_status[]), '{}')
  FROM unnest($1::bigint[], $2::int[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::int[], $9::float8[],
              $10::float8[], $11::text[], $12::text[], $13::float8[], $14::text[], $15::text[]) WITH ORDINALITY
       AS c (parent_id, round, fsm, version, step, state, queue, priority, delay_ms, at_ms, concurrency_key, rate_limit,
             weight, correlation_key, scope, n)
  ORDER BY c.correlation_key, c.n
  ON CONFLICT (correlation_guard) WHERE correlation_guard IS NOT NULL DO NOTHING
  RETURNING parent_id, queue, eligible_at
)
SELECT parent_id, queue, CAST(count(*) AS int) AS landed,
       CAST(extract(epoch FROM min(eligible_at) - coalesce($16::timestamptz, now())) * 1000 AS float8) AS due_ms
FROM inserted
GROUP BY parent_id, queue
