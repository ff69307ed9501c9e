-- Runs:    the testing helpers' assertions.
-- Does:    reads one instance.
-- Params:  $1 id bigint.
-- Returns: fsm, step, status, attempt, state, result, last_error, awaits; no row when it is not there.
-- Locks:   nothing.                   Index: gen_durable_pkey.
SELECT g.fsm, g.step, g.status::text AS status, g.attempt, g.state, g.result, g.last_error, g.awaits
  FROM :schema.gen_durable g
 WHERE g.id = $1::bigint
