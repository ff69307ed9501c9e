-- Runs:    a client that retries an instance, after lock_family.
-- Does:    says what decides about the retry.                    Indexes: gen_durable_pkey, gen_durable_correlation.
-- Params:  $1 text: id.
-- Returns: status; occupant: who else has the correlation key that the instance would take; joins: 'yes' when its parent
--          still waits in its round.
-- Locks:   nothing; the rows are locked.
SELECT CAST(g.status AS text) AS status,
       CASE WHEN 'runnable' = ANY (g.correlation_scope) THEN
         (SELECT CAST(o.id AS text) FROM :schema.gen_durable o
          WHERE o.correlation_guard = g.correlation_key AND o.id <> g.id LIMIT 1) END AS occupant,
       CASE WHEN p.id IS NULL THEN 'no' ELSE 'yes' END AS joins
FROM :schema.gen_durable g
LEFT JOIN :schema.gen_durable p
  ON p.id = g.parent_id AND p.visit = g.parent_visit AND CAST(p.status AS text) = 'awaiting_children'
WHERE g.id = CAST(CAST($1 AS text) AS bigint)
