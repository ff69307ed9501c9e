-- Runs:    picker, after a claim, only when some claimed row has an inbox; flusher, over rows whose next step runs ahead.
--          Index: signals_target.
-- Does:    reads the unread signals of these rows. A row's awaited signals come before others when its inbox
--          exceeds the limits; what is left out is presented later, since the step is not told that it has seen it.
-- Params:  $1 instance ids bigint[], $2 signals of one row at most int, $3 bytes of one row at most float8.
-- Returns: id, inbox: a JSON array of { id, name, payload }, oldest first. Nothing for a row without unread signals.
-- Locks:   nothing.
SELECT t.id, i.inbox
  FROM unnest($1::bigint[]) AS t (id)
  CROSS JOIN LATERAL (
    SELECT json_agg(json_build_object('id', w.id, 'name', w.name, 'payload', w.payload) ORDER BY w.id) AS inbox
      FROM (
        SELECT s.id, s.name, s.payload,
               sum(octet_length(coalesce(s.payload::text, '')) + octet_length(s.name)) OVER turn AS total_bytes,
               row_number() OVER turn AS place
          FROM :schema.signals s
         WHERE s.target_id = t.id AND s.consumed_at IS NULL
        WINDOW turn AS (
          ORDER BY s.name <> ALL ((SELECT g.awaits FROM :schema.gen_durable g WHERE g.id = t.id)::text[]), s.id
        )
      ) w
     WHERE w.place <= $2::int AND (w.total_bytes <= $3::float8 OR w.place = 1)
  ) i
 WHERE i.inbox IS NOT NULL
