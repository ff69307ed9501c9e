-- Runs:    a node started with --once, while it holds nothing and finds nothing.
-- Does:    says whether something in its queues will go on by itself: a runnable row of a known definition, due within
--          reach, whose rate limit could ever admit it; a row that executes somewhere; an await deadline within reach.
-- Params:  $1 queues text[], $2 definition names text[], $3 their versions int[], $4 reach ms float8, $5 boolean: whether
--          rows count whose lease has run out (somebody reaps them).
-- Returns: pending boolean.
-- Locks:   nothing. Indexes: gen_durable_pick, gen_durable_lease, gen_durable_await_deadline.
SELECT coalesce(
  (SELECT true FROM unnest($1::text[]) AS q (queue)
    CROSS JOIN LATERAL (
      SELECT true FROM :schema.gen_durable g
       WHERE g.queue = q.queue AND g.status = 'runnable'
         AND g.eligible_at <= now() + $4::float8 * interval '1 millisecond'
         AND (g.rate_limit IS NULL
              OR g.weight <= (SELECT c.capacity FROM :schema.gen_durable_bucket_configs c
                               WHERE c.kind = 'rate' AND c.name = split_part(g.rate_limit, ':', 1)))
         AND ((g.fsm, g.fsm_version) IN (SELECT * FROM unnest($2::text[], $3::int[]))) IS TRUE
       LIMIT 1
    ) r LIMIT 1),
  (SELECT true FROM :schema.gen_durable g
    WHERE g.status = 'executing' AND g.queue = ANY ($1::text[]) AND ($5::boolean OR g.lease_expires_at >= now()) LIMIT 1),
  (SELECT true FROM :schema.gen_durable g
    WHERE g.status = 'awaiting_signal' AND g.await_deadline <= now() + $4::float8 * interval '1 millisecond'
      AND g.queue = ANY ($1::text[]) LIMIT 1),
  false) AS pending
