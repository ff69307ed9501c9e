-- Runs:    picker, after a claim, only when some claimed row has children; flusher, over rows whose next step runs ahead.
--          Index: gen_durable_parent.
-- Does:    reads the children of these rows, of all rounds that are still in the database. Past the byte budget
--          of a row, children come without their results and with the beginning of their errors, never without their status.
-- Params:  $1 parent ids bigint[], $2 bytes of results and errors of one parent at most float8, $3 children of one parent at most int.
-- Returns: id, children: a JSON array of { id, fsm, status, result, error, round }, oldest first. Nothing for a row without.
-- Locks:   nothing.
SELECT t.id, c.children
  FROM unnest($1::bigint[]) AS t (id)
  CROSS JOIN LATERAL (
    SELECT json_agg(json_build_object(
             'id', w.id, 'fsm', w.fsm, 'status', w.status, 'round', w.parent_visit,
             'error', CASE WHEN w.total_bytes <= $2::float8 THEN w.last_error ELSE left(w.last_error, 100) END,
             'result', CASE WHEN w.total_bytes <= $2::float8 THEN w.result END) ORDER BY w.id) AS children
      FROM (
        SELECT k.id, k.fsm, k.status, k.result, k.last_error, k.parent_visit,
               sum(coalesce(octet_length(k.result::text), 0) + coalesce(octet_length(k.last_error), 0))
                 OVER (ORDER BY k.id) AS total_bytes
          FROM :schema.gen_durable k
         WHERE k.parent_id = t.id
         ORDER BY k.id
         LIMIT $3::int
      ) w
  ) c
 WHERE c.children IS NOT NULL
