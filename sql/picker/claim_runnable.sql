-- Runs:    picker, once a pick; one statement for a whole batch.        Indexes: gen_durable_pick, gen_durable_pkey.
-- Does:    claims due runnable rows of one queue, urgent first: runnable -> executing, with an owner and a lease by the
--          database's clock. Only rows of definitions that the node knows. Rows that carry a limit are met, counted and
--          left: the picker then claims through lock_candidates.sql, which admits them.
--          It goes through the priorities one by one, so that sleepers on an urgent priority cost one probe; a
--          priority without a place to resume at is scanned from its start, and is found by a loose scan of the index between
--          those that have one. Nothing is locked beyond what the batch needs: the outer LIMIT pulls.
--          Its commit does not wait for the disk: a claim that a crashed server forgets is a row that runs again, and every
--          later commit that counts (a mark, a flush) brings the claim to the disk with it.
-- Params:  $1 queue text, $2 rows at most int, $3 claim text (<node>/<pick>), $4 lease ms float8,
--          $5 definition names text[], $6 their versions int[] (same length),
--          $7 priorities int[] that have a place, $8 resume after eligible_at timestamptz[] and $9 after id bigint[] (same
--          length), $13 float8 milliseconds: that much before the place,
--          $10 as of timestamptz or NULL (now), $11 bytes at most float8 (at least one row is claimed),
--          $12 ids to leave out bigint[]: rows that the database refused to claim a moment ago.
-- Returns: the claimed rows, with what their steps need, in no order; `more` is NULL where nothing of it is set, else a JSON array: attempt,
--          crashes, reaps, awaited names, seen signals, wake reason, cancel reason. And first one row without an id, whose `more` is a
--          JSON object: `seen`, how many rows were found, more than are claimed where the bytes ended the batch; `limited`, how many of
--          them carry a limit; `order`, the claimed ids in pick order, as "2,1"; `inboxes` and `children`, those that have some, in
--          the same way, or NULL; `reached`, the last place of each priority, or NULL.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED in pick order: it never waits, so order cannot deadlock.
WITH RECURSIVE
known AS MATERIALIZED (
  SELECT k.priority, k.after_at - $13::float8 * interval '1 millisecond' AS after_at, k.after_id
    FROM unnest($7::int[], $8::timestamptz[], $9::bigint[]) AS k (priority, after_at, after_id)
),
-- Below the first priority there can be; then from each to the next: a known one is not looked for, only the gaps are.
found AS (
  SELECT (-2147483649)::bigint AS priority
  UNION ALL
  SELECT coalesce((SELECT r.priority FROM :schema.gen_durable r
                    WHERE r.queue = $1::text AND r.status = 'runnable' AND r.priority > found.priority
                      AND r.priority < coalesce(next.known, 2147483648)
                    ORDER BY r.priority LIMIT 1), next.known)
    FROM found
    CROSS JOIN LATERAL (SELECT min(k.priority)::bigint AS known FROM known k WHERE k.priority > found.priority) next
   WHERE found.priority IS NOT NULL
),
places AS (
  SELECT f.priority,
         coalesce((SELECT k.after_at FROM known k WHERE k.priority = f.priority), '-infinity') AS after_at,
         coalesce((SELECT k.after_id FROM known k WHERE k.priority = f.priority), 0) AS after_id
    FROM found f WHERE f.priority >= -2147483648
),
-- The order of the places is the order in which the nested loop pulls: the LIMIT ends it. Rows come in pick order, and are numbered and
-- added up as they come. An instance at its first visit has decided nothing yet, so it has no children.
candidates AS MATERIALIZED (
  SELECT c.id, c.priority, c.eligible_at, c.limited, c.inbox_bytes, c.children_bytes, c.turn,
         -- The first one, however large, and those that fit with all before them.
         NOT c.limited AND (c.total_bytes <= $11::float8 OR c.total_bytes = c.bytes) AS taken
    FROM (
      SELECT c.*, row_number() OVER until AS turn, sum(c.bytes) OVER until AS total_bytes
        FROM (
          SELECT c.*, CASE WHEN c.limited THEN 0
                           ELSE c.state_bytes + coalesce(c.inbox_bytes, 0) + coalesce(c.children_bytes, 0) END AS bytes
            FROM (
              -- Correlated scalar subqueries: a join could be turned into a scan of the whole table behind it.
              SELECT c.*,
                     CASE WHEN NOT c.limited THEN
                       (SELECT sum(CASE WHEN pg_column_compression(s.payload) IS NOT NULL THEN octet_length(s.payload::text)
                                        ELSE coalesce(pg_column_size(s.payload), 0) END) + 1 FROM :schema.signals s
                         WHERE s.target_id = c.id AND s.consumed_at IS NULL) END AS inbox_bytes,
                     CASE WHEN NOT c.limited AND c.visit > 1 THEN
                       (SELECT sum(CASE WHEN pg_column_compression(k.result) IS NOT NULL THEN octet_length(k.result::text)
                                        ELSE coalesce(pg_column_size(k.result), 0) END) + 1 FROM :schema.gen_durable k
                         WHERE k.parent_id = c.id) END AS children_bytes
                FROM places p
                CROSS JOIN LATERAL (
                  -- What is compressed or large is measured as the text that travels.
                  SELECT g.id, g.priority, g.eligible_at, g.visit,
                         (g.concurrency_key IS NOT NULL OR g.rate_limit IS NOT NULL) AS limited,
                         CASE WHEN pg_column_size(g.state) > 1500 OR pg_column_compression(g.state) IS NOT NULL
                              THEN octet_length(g.state::text) ELSE pg_column_size(g.state) END AS state_bytes
                    FROM :schema.gen_durable g
                   WHERE g.queue = $1::text AND g.status = 'runnable' AND g.priority = p.priority
                     AND g.eligible_at <= coalesce($10::timestamptz, now())
                     AND (g.eligible_at, g.id) > (p.after_at, p.after_id)
                     AND g.id <> ALL ($12::bigint[])
                     -- IS TRUE keeps the membership a hashed lookup; a bare IN would become a join.
                     AND ((g.fsm, g.fsm_version) IN (SELECT * FROM unnest($5::text[], $6::int[]))) IS TRUE
                   ORDER BY g.eligible_at, g.id
                   LIMIT $2::int
                   FOR NO KEY UPDATE SKIP LOCKED
                ) c
                LIMIT $2::int
            ) c
        ) c
      WINDOW until AS (ROWS UNBOUNDED PRECEDING)
    ) c
),
-- MATERIALIZED, so that the setting is made although nobody reads it.
facts AS MATERIALIZED (
  SELECT count(*) AS seen, count(*) FILTER (WHERE c.limited) AS limited,
         string_agg(c.id::text, ',') FILTER (WHERE c.taken) AS taken,
         string_agg(c.id::text, ',') FILTER (WHERE c.taken AND c.inbox_bytes IS NOT NULL) AS inboxes,
         string_agg(c.id::text, ',') FILTER (WHERE c.taken AND c.children_bytes IS NOT NULL) AS children,
         set_config('synchronous_commit', 'off', true) AS durability
    FROM candidates c
),
claimed AS (
  UPDATE :schema.gen_durable g
     SET status = 'executing', locked_by = $3::text,
         lease_expires_at = now() + $4::float8 * interval '1 millisecond', updated_at = now()
   WHERE g.id = ANY (ARRAY(SELECT c.id FROM candidates c WHERE c.taken))
  RETURNING g.id, g.fsm, g.fsm_version, g.step, g.state, g.visit, g.priority, g.parent_id, g.parent_visit,
            CASE WHEN g.attempt > 0 OR g.crashes > 0 OR g.reaps > 0 OR g.awaits <> '{}' OR g.await_seen <> '{}'
                   OR g.wake_reason IS NOT NULL OR g.cancel_reason IS NOT NULL
                 THEN json_build_array(g.attempt, g.crashes, g.reaps, g.awaits, g.await_seen, g.wake_reason, g.cancel_reason)
            END AS more
)
SELECT NULL::bigint AS id, NULL::text AS fsm, NULL::int AS version, NULL::text AS step, NULL::jsonb AS state, NULL::int AS visit,
       NULL::int AS priority, NULL::bigint AS parent_id, NULL::int AS parent_visit,
       json_build_object(
         'seen', facts.seen, 'limited', facts.limited, 'order', facts.taken, 'inboxes', facts.inboxes, 'children', facts.children,
         'reached', (SELECT json_agg(json_build_object('priority', c.priority, 'eligibleAt', c.eligible_at::text, 'id', c.id))
                       FROM candidates c
                      WHERE c.turn IN (SELECT max(r.turn) FROM candidates r WHERE r.taken GROUP BY r.priority))) AS more
  FROM facts
UNION ALL
SELECT g.id, g.fsm, g.fsm_version, g.step, g.state, g.visit, g.priority, g.parent_id, g.parent_visit, g.more FROM claimed g
