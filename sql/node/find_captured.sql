-- Runs:    coordinator, once, before it enters the limits of its configuration; only when that states gates.
-- Does:    finds live instances under keys that were K = 1 until now and become a gate's: a prefix that a new name captures.
-- Params:  $1 gate names text[].
-- Returns: name and one key of each new gate that captures live keys.
-- Locks:   nothing. Only names that are new are looked for, so that this reads the keyed rows once.
SELECT n.name, (SELECT g.concurrency_key FROM :schema.gen_durable g
                 WHERE g.concurrency_key IS NOT NULL AND g.concurrency_name = n.name
                   AND g.status::text NOT IN ('done', 'failed') LIMIT 1) AS key
  FROM (SELECT u.name FROM unnest($1::text[]) AS u (name)
         WHERE NOT EXISTS (SELECT FROM :schema.gen_durable_bucket_configs c WHERE c.kind = 'conc' AND c.name = u.name)) n
