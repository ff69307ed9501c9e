-- Runs:    picker, after the database has refused to claim even one row alone.      Index: gen_durable_pick.
-- Does:    finds that row: the first that a claim would take.
-- Params:  $1 queue text, $2 definition names text[], $3 their versions int[], $4 ids to leave out bigint[].
-- Returns: id; nothing when there is none any more.
-- Locks:   nothing.
SELECT g.id
  FROM :schema.gen_durable g
 WHERE g.queue = $1::text AND g.status = 'runnable' AND g.eligible_at <= now()
   AND g.concurrency_key IS NULL AND g.rate_limit IS NULL AND g.id <> ALL ($4::bigint[])
   AND ((g.fsm, g.fsm_version) IN (SELECT * FROM unnest($2::text[], $3::int[]))) IS TRUE
 ORDER BY g.priority, g.eligible_at, g.id
 LIMIT 1
