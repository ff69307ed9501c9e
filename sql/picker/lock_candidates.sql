-- Runs:    picker, first in the transaction of a pick where limits can apply.
--          Indexes: gen_durable_pick, gen_durable_key, gen_durable_concurrency_active, gen_durable_pkey.
-- Does:    finds and locks what may be claimed, urgent first. It looks at a bounded window of the queue, from the given
--          places, and at the rows of the keys that are to be probed, wherever in the queue they stand. Of an unconfigured
--          key only the head counts, and nothing while a row of it executes; rows of keys known to be full or busy, of
--          rate limits that nobody has configured and of weights that can never fit do not count.
-- Params:  $1 queue text, $2 rows at most int, $3 rows to look at, at most int, $4 definition names text[], $5 their
--          versions int[], $6 priorities int[], $7 resume there after eligible_at timestamptz[] and $8 after id bigint[]
--          (same length; a priority that is not named is looked at from its start), $9 as of timestamptz or NULL (now),
--          $10 bytes at most float8 (at least one row), $11 concurrency keys and $12 rate keys to leave out text[],
--          $13 concurrency keys to probe text[], $14 ids to leave out bigint[].
-- Returns: one row of facts (id NULL): seen, limited, cut (rows were left for the next pick), busy (keys of which a row
--          executes, or whose head somebody has locked), followed (keys of locked heads behind which others wait), unknown (JSON: rate keys without a limit of their name, with fsm and step), reached (JSON: how far
--          each priority was looked at); then the locked rows in pick order: what limits them, whether the key is a gate's.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED in pick order: it never waits.
WITH RECURSIVE
found AS (
  (SELECT r.priority FROM :schema.gen_durable r
    WHERE r.queue = $1::text AND r.status = 'runnable' ORDER BY r.priority LIMIT 1)
  UNION ALL
  SELECT (SELECT r.priority FROM :schema.gen_durable r
           WHERE r.queue = $1::text AND r.status = 'runnable' AND r.priority > found.priority
           ORDER BY r.priority LIMIT 1)
    FROM found WHERE found.priority IS NOT NULL
),
places AS MATERIALIZED (
  SELECT f.priority, coalesce(r.after_at, '-infinity') AS after_at, coalesce(r.after_id, 0) AS after_id
    FROM found f
    LEFT JOIN unnest($6::int[], $7::timestamptz[], $8::bigint[]) AS r (priority, after_at, after_id)
      ON r.priority = f.priority
   WHERE f.priority IS NOT NULL
   ORDER BY f.priority
),
-- Nothing is locked here, so that a backlog which cannot be claimed costs a look and no more.
seen AS MATERIALIZED (
  SELECT c.*
    FROM places p
    CROSS JOIN LATERAL (
      SELECT g.id, g.priority, g.eligible_at, g.fsm, g.fsm_version, g.step, g.concurrency_key, g.concurrency_name,
             g.rate_limit, g.weight
        FROM :schema.gen_durable g
       WHERE g.queue = $1::text AND g.status = 'runnable' AND g.priority = p.priority
         AND g.eligible_at <= coalesce($9::timestamptz, now())
         AND (g.eligible_at, g.id) > (p.after_at, p.after_id)
       ORDER BY g.eligible_at, g.id
       LIMIT $3::int
    ) c
    LIMIT $3::int
),
probed AS MATERIALIZED (
  SELECT c.*
    FROM unnest($13::text[]) AS k (key)
    CROSS JOIN LATERAL (
      SELECT g.id, g.priority, g.eligible_at, g.fsm, g.fsm_version, g.step, g.concurrency_key, g.concurrency_name,
             g.rate_limit, g.weight
        FROM :schema.gen_durable g
       WHERE g.concurrency_key = k.key AND g.status = 'runnable' AND g.queue = $1::text
         AND g.eligible_at <= coalesce($9::timestamptz, now())
       ORDER BY g.priority, g.eligible_at, g.id
       LIMIT $2::int
    ) c
),
-- The configured limits are read by each pick: a change counts for the next one, on every node.
looked AS MATERIALIZED (
  SELECT s.*,
         (s.concurrency_name IN (SELECT c.name FROM :schema.gen_durable_bucket_configs c WHERE c.kind = 'conc')) IS TRUE AS gated,
         CASE WHEN s.rate_limit IS NOT NULL THEN
           (SELECT c.capacity FROM :schema.gen_durable_bucket_configs c
             WHERE c.kind = 'rate' AND c.name = split_part(s.rate_limit, ':', 1)) END AS burst,
         (s.concurrency_key IN (SELECT * FROM unnest($11::text[]))) IS TRUE
           OR (s.rate_limit IN (SELECT * FROM unnest($12::text[]))) IS TRUE AS excluded
    FROM (SELECT * FROM seen UNION SELECT * FROM probed) s
   WHERE ((s.fsm, s.fsm_version) IN (SELECT * FROM unnest($4::text[], $5::int[]))) IS TRUE
     AND s.id <> ALL ($14::bigint[])
),
keys AS MATERIALIZED (
  SELECT k.key,
         (SELECT true FROM :schema.gen_durable e
           WHERE e.concurrency_key = k.key AND e.status = 'executing' AND e.concurrency_shard IS NULL LIMIT 1) AS busy,
         -- Of the heads that are there the first that can start: one without a limit, or of a rate that is not used up.
         (SELECT h.id FROM :schema.gen_durable h
           WHERE h.concurrency_key = k.key AND h.status = 'runnable' AND h.queue = $1::text
             AND h.eligible_at <= coalesce($9::timestamptz, now())
             AND ((h.fsm, h.fsm_version) IN (SELECT * FROM unnest($4::text[], $5::int[]))) IS TRUE
             AND h.id <> ALL ($14::bigint[])
             AND (h.rate_limit IS NULL
                  OR ((h.rate_limit IN (SELECT * FROM unnest($12::text[]))) IS NOT TRUE
                      AND h.weight <= (SELECT c.capacity FROM :schema.gen_durable_bucket_configs c
                                        WHERE c.kind = 'rate' AND c.name = split_part(h.rate_limit, ':', 1))))
           ORDER BY h.priority, h.eligible_at, h.id LIMIT 1) AS head
    FROM (SELECT DISTINCT l.concurrency_key AS key FROM looked l
           WHERE l.concurrency_key IS NOT NULL AND NOT l.gated AND NOT l.excluded) k
),
wanted AS MATERIALIZED (
  SELECT l.id, l.priority, l.eligible_at, l.concurrency_key, l.rate_limit, l.gated
    FROM looked l
   WHERE NOT l.excluded
     AND (l.rate_limit IS NULL OR l.weight <= l.burst)
     AND (l.concurrency_key IS NULL OR l.gated
          OR l.id = (SELECT k.head FROM keys k WHERE k.key = l.concurrency_key AND k.busy IS NULL))
   ORDER BY l.priority, l.eligible_at, l.id
),
candidates AS MATERIALIZED (
  SELECT row_number() OVER () AS turn, c.*
    FROM (
      SELECT c.*, w.gated
        FROM wanted w
        CROSS JOIN LATERAL (
          -- What is compressed or large is measured as the text that travels.
          SELECT g.id, g.priority, g.eligible_at, g.visit, g.wake_reason, g.concurrency_key, g.rate_limit, g.weight,
                 CASE WHEN pg_column_size(g.state) > 1500 OR pg_column_compression(g.state) IS NOT NULL
                      THEN octet_length(g.state::text) ELSE pg_column_size(g.state) END AS state_bytes
            FROM :schema.gen_durable g
           WHERE g.id = w.id AND g.status::text = 'runnable' AND g.queue = $1::text
             AND g.eligible_at <= coalesce($9::timestamptz, now())
             AND g.concurrency_key IS NOT DISTINCT FROM w.concurrency_key
             AND g.rate_limit IS NOT DISTINCT FROM w.rate_limit
             FOR NO KEY UPDATE SKIP LOCKED
        ) c
        LIMIT $2::int
    ) c
),
weighed AS MATERIALIZED (
  SELECT c.*,
         (SELECT sum(CASE WHEN pg_column_compression(s.payload) IS NOT NULL THEN octet_length(s.payload::text)
                          ELSE coalesce(pg_column_size(s.payload), 0) END) + 1 FROM :schema.signals s
           WHERE s.target_id = c.id AND s.consumed_at IS NULL) AS inbox_bytes,
         CASE WHEN c.visit > 1 THEN
           (SELECT sum(CASE WHEN pg_column_compression(k.result) IS NOT NULL THEN octet_length(k.result::text)
                            ELSE coalesce(pg_column_size(k.result), 0) END) + 1 FROM :schema.gen_durable k
             WHERE k.parent_id = c.id) END AS children_bytes
    FROM candidates c
),
chosen AS MATERIALIZED (
  SELECT w.*
    FROM (SELECT w.*, sum(w.state_bytes + coalesce(w.inbox_bytes, 0) + coalesce(w.children_bytes, 0))
                      OVER (ORDER BY w.turn) AS total_bytes
            FROM weighed w) w
   WHERE w.total_bytes <= $10::float8 OR w.turn = 1
),
facts AS MATERIALIZED (
  SELECT (SELECT count(*) FROM seen)::int AS seen,
         (SELECT count(*) FROM candidates) >= $2::int OR (SELECT count(*) FROM chosen) < (SELECT count(*) FROM candidates) AS cut
),
reached AS (
  SELECT DISTINCT ON (s.priority) s.priority, s.eligible_at, s.id
    FROM seen s
    CROSS JOIN facts
    LEFT JOIN (SELECT c.priority, c.eligible_at, c.id FROM chosen c ORDER BY c.turn DESC LIMIT 1) last ON true
   WHERE NOT facts.cut OR (s.priority, s.eligible_at, s.id) <= (last.priority, last.eligible_at, last.id)
   ORDER BY s.priority, s.eligible_at DESC, s.id DESC
)
SELECT NULL::bigint AS id, NULL::int AS priority, NULL::text AS concurrency_key, NULL::text AS rate_limit,
       NULL::float8 AS weight, NULL::boolean AS gated, NULL::boolean AS has_inbox, NULL::boolean AS has_children,
       0::bigint AS turn, facts.seen, facts.cut,
       (SELECT count(*) FROM looked l WHERE l.concurrency_key IS NOT NULL OR l.rate_limit IS NOT NULL)::int AS limited,
       (SELECT array_agg(k.key) FROM keys k
         WHERE k.busy OR (NOT facts.cut AND k.head IN (SELECT w.id FROM wanted w)
                          AND (k.head IN (SELECT c.id FROM candidates c)) IS NOT TRUE)) AS busy,
       (SELECT array_agg(c.concurrency_key) FROM chosen c
         WHERE c.concurrency_key IS NOT NULL AND NOT c.gated
           AND (SELECT true FROM :schema.gen_durable h
                 WHERE h.concurrency_key = c.concurrency_key AND h.status = 'runnable' AND h.queue = $1::text
                   AND h.eligible_at <= coalesce($9::timestamptz, now()) AND h.id <> c.id LIMIT 1)) AS followed,
       (SELECT json_agg(u) FROM (SELECT DISTINCT l.rate_limit AS key, l.fsm, l.step FROM looked l
                                  WHERE l.rate_limit IS NOT NULL AND l.burst IS NULL LIMIT 100) u) AS unknown,
       (SELECT json_agg(json_build_object('priority', r.priority, 'eligibleAt', r.eligible_at::text, 'id', r.id))
          FROM reached r) AS reached
  FROM facts
UNION ALL
SELECT c.id, c.priority, c.concurrency_key, c.rate_limit, c.weight, c.gated,
       -- A wake that is younger than this statement's snapshot brought a signal or children that it cannot see.
       (c.inbox_bytes IS NOT NULL OR coalesce(c.wake_reason = 'signal', false)),
       (c.children_bytes IS NOT NULL OR coalesce(c.wake_reason = 'children', false)),
       c.turn, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM chosen c
 ORDER BY turn
