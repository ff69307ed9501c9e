-- Runs:    coordinator, once, when the first executor thread has loaded the definitions.
-- Does:    enters the definitions into the catalogue; a boot that changes nothing writes nothing.
-- Params:  $1 names text[], $2 versions int[], $3 queues text[], $4 initial steps text[],
--          $5 steps text[] (each a JSON array of names), $6 on-cancel steps text[] (NULL: none); one entry a definition.
-- Returns: nothing.
-- Locks:   fsms, in primary key order.
INSERT INTO :schema.fsms AS known (name, version, queue, initial_step, steps, on_cancel)
SELECT d.name, d.version, d.queue, d.initial_step,
       ARRAY(SELECT s.step FROM jsonb_array_elements_text(d.steps::jsonb) WITH ORDINALITY AS s (step, turn) ORDER BY s.turn),
       d.on_cancel
  FROM unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::text[], $6::text[])
       AS d (name, version, queue, initial_step, steps, on_cancel)
 ORDER BY d.name, d.version
ON CONFLICT (name, version) DO UPDATE
   SET queue = excluded.queue, initial_step = excluded.initial_step, steps = excluded.steps,
       on_cancel = excluded.on_cancel, updated_at = now()
 WHERE (known.queue, known.initial_step, known.steps, known.on_cancel)
       IS DISTINCT FROM (excluded.queue, excluded.initial_step, excluded.steps, excluded.on_cancel)
