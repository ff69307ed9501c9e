-- Runs:    flusher, before apply_outcomes, only when a row of the batch may enter the scope of its correlation key.
-- Does:    a row that would enter an occupied key loses its identity (empty scope), so that its transition commits.
-- Params:  arrays, one entry a row: $1 ids bigint[], $2 the statuses they get text[], $3 awaited names text[] and $4 seen
--          signals text[] (array literals; NULL where the row does not park on signals). $5 boolean: release them
--          whoever the occupant is. $6 timestamptz: as of when, NULL: now.
-- Returns: id of each row that lost its identity, key, and occupant: who has it (NULL: nobody could be seen).
-- Locks:   gen_durable rows that lock_batch has locked already.
WITH b AS MATERIALIZED (
  SELECT u.id, CAST(CASE WHEN (
           SELECT true FROM :schema.signals s
           WHERE s.target_id = u.id AND s.consumed_at IS NULL AND s.name = ANY (CAST(u.names AS text[]))
             AND s.id <> ALL (CAST(u.seen AS bigint[])) LIMIT 1) THEN 'runnable' ELSE u.status END
         AS :schema.durable_status) AS becomes
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS u (id, status, names, seen)
), entering AS MATERIALIZED (
  SELECT g.id, g.correlation_key AS key, first_value(g.id) OVER same_key AS first,
         (SELECT o.id FROM :schema.gen_durable o WHERE o.correlation_guard = g.correlation_key AND o.id <> g.id LIMIT 1) AS occupant
  FROM b JOIN :schema.gen_durable AS g ON g.id = ANY (ARRAY[b.id])
  WHERE b.becomes = ANY (g.correlation_scope)
  WINDOW same_key AS (PARTITION BY g.correlation_key ORDER BY g.id)
), released AS (
  UPDATE :schema.gen_durable AS g
  SET correlation_scope = '{}', updated_at = coalesce($6::timestamptz, now())
  FROM entering e
  WHERE g.id = ANY (ARRAY[e.id]) AND ($5::boolean OR e.occupant IS NOT NULL OR e.first <> e.id)
  RETURNING g.id
)
SELECT e.id, e.key, coalesce(e.occupant, nullif(e.first, e.id)) AS occupant
FROM released r JOIN entering e ON e.id = r.id
