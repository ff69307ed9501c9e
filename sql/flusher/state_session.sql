-- Runs:    a flusher, once, when its connection opens (behind a transaction pooler: with SET LOCAL, each transaction).
-- Does:    states what the flush relies on. Every row of a batch is reached by its key: a planner that believes in a
--          small table, a stale statistic or a tiny executing set must not turn that into a scan. With the joins settled
--          there is nothing to plan anew: planning each small batch by its values cost as much as running it. A wait that
--          cannot be skipped is short.
-- Params:  $1 text, the lock timeout in milliseconds.
-- Returns: nothing of use.
-- Locks:   nothing.
SELECT set_config(name, value, false)
FROM (VALUES
  ('enable_seqscan', 'off'),
  ('enable_hashjoin', 'off'),
  ('enable_mergejoin', 'off'),
  ('enable_bitmapscan', 'off'),
  ('plan_cache_mode', 'force_generic_plan'),
  ('lock_timeout', $1::text)
) AS setting (name, value)
