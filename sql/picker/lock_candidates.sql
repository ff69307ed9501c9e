-- Runs:    picker, first in the transaction of a pick where limits can apply.
--          Indexes: gen_durable_pick, gen_durable_key, gen_durable_concurrency_active, gen_durable_pkey.
-- Does:    finds and locks what may be claimed, urgent first. It looks at a bounded window of the queue, from the given
--          places, and at the rows of the keys that are to be probed, wherever in the queue they stand. Of an unconfigured
--          key only the head counts, wherever it stands, and nothing while a row of it executes; rows of keys known to be
--          full or busy, of rate limits that nobody has configured and of weights that can never fit do not count.
-- Params:  $1 queue text, $2 rows at most int, $3 rows to look at, at most int, $4 definition names text[], $5 their
--          versions int[], $6 priorities int[], $7 resume there after eligible_at timestamptz[] and $8 after id bigint[]
--          (same length; a priority that is not named is looked at from its start), $9 as of timestamptz or NULL (now),
--          $10 bytes at most float8 (at least one row), $11 concurrency keys and $12 rate keys to leave out text[],
--          $13 concurrency keys to probe text[], $14 ids to leave out bigint[].
-- Returns: one row. seen, limited (above zero: rows with limits were met), cut (rows were left for the next pick), busy (keys of
--          which a row executes, or whose head somebody has locked), followed (keys of locked heads behind which others
--          wait), more (probed gates of which not every row was looked at), unknown (JSON: rate keys without a limit of
--          their name, with fsm and step), reached (JSON: how far each priority was looked at); rows (JSON, in pick order):
--          id, concurrency key, whether that is a gate's, rate limit, weight, whether there are an inbox and children.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED: first rows of keys of which a later one is wanted, then in pick order. It
--          never waits.
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
  SELECT row_number() OVER () AS place, c.*
    FROM (
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
    ) c
),
-- The configured limits are read by each pick: a change counts for the next one, on every node.
probes AS MATERIALIZED (
  SELECT k.key,
         (split_part(k.key, ':', 1) IN (SELECT c.name FROM :schema.gen_durable_bucket_configs c WHERE c.kind = 'conc')) AS gated
    FROM unnest($13::text[]) AS k (key)
),
-- Gates share what a pick may look at beside its window; of other keys the head is enough.
share AS MATERIALIZED (
  SELECT ceil($2::float8 / greatest(count(*), 1))::bigint AS rows FROM probes WHERE probes.gated
),
probed AS MATERIALIZED (
  SELECT c.*
    FROM probes p
    CROSS JOIN LATERAL (
      SELECT g.id, g.priority, g.eligible_at, g.fsm, g.fsm_version, g.step, g.concurrency_key, g.concurrency_name,
             g.rate_limit, g.weight
        FROM :schema.gen_durable g
       WHERE g.concurrency_key = p.key AND g.status = 'runnable' AND g.queue = $1::text
         AND g.eligible_at <= coalesce($9::timestamptz, now())
       ORDER BY g.priority, g.eligible_at, g.id
       LIMIT (SELECT share.rows FROM share)
    ) c
   WHERE p.gated
),
-- Memberships are hashed lookups; a join of two lists would compare each with each.
looked AS MATERIALIZED (
  SELECT s.id, s.priority, s.eligible_at, s.fsm, s.step, s.concurrency_key, s.rate_limit, s.weight,
         (s.concurrency_name IN (SELECT c.name FROM :schema.gen_durable_bucket_configs c WHERE c.kind = 'conc')) IS TRUE AS gated,
         (split_part(s.rate_limit, ':', 1)
           IN (SELECT c.name FROM :schema.gen_durable_bucket_configs c WHERE c.kind = 'rate')) IS TRUE AS rated,
         (s.concurrency_key IN (SELECT * FROM unnest($11::text[]))) IS TRUE
           OR (s.rate_limit IN (SELECT * FROM unnest($12::text[]))) IS TRUE AS excluded
    FROM (SELECT s.id, s.priority, s.eligible_at, s.fsm, s.fsm_version, s.step, s.concurrency_key, s.concurrency_name,
                 s.rate_limit, s.weight
            FROM seen s
          UNION ALL
          SELECT p.* FROM probed p WHERE (p.id IN (SELECT s.id FROM seen s)) IS NOT TRUE) s
   WHERE ((s.fsm, s.fsm_version) IN (SELECT * FROM unnest($4::text[], $5::int[]))) IS TRUE
     AND s.id <> ALL ($14::bigint[])
),
keys AS MATERIALIZED (
  SELECT k.key, k.busy, f.id AS first, CASE WHEN f.fits THEN f.id ELSE h.id END AS id,
         CASE WHEN f.fits THEN f.priority ELSE h.priority END AS priority,
         CASE WHEN f.fits THEN f.eligible_at ELSE h.eligible_at END AS eligible_at,
         CASE WHEN f.fits THEN f.rate_limit ELSE h.rate_limit END AS rate_limit
    FROM (SELECT k.key,
                 (SELECT true FROM :schema.gen_durable e
                   WHERE e.concurrency_key = k.key AND e.status = 'executing' AND e.concurrency_shard IS NULL LIMIT 1) AS busy
            FROM (SELECT l.concurrency_key AS key FROM looked l
                   WHERE l.concurrency_key IS NOT NULL AND NOT l.gated AND NOT l.excluded
                  UNION
                  SELECT p.key FROM probes p WHERE NOT p.gated) k
           OFFSET 0) k
    LEFT JOIN LATERAL (
      SELECT f.id, f.priority, f.eligible_at, f.rate_limit,
             ((f.fsm, f.fsm_version) IN (SELECT * FROM unnest($4::text[], $5::int[]))) IS TRUE AND f.id <> ALL ($14::bigint[])
               AND f.queue = $1::text AND f.rate_limit IS NULL AS fits
        FROM :schema.gen_durable f
       WHERE k.busy IS NULL AND f.concurrency_key = k.key AND f.status = 'runnable'
         AND f.eligible_at <= coalesce($9::timestamptz, now())
       ORDER BY f.priority, f.eligible_at, f.id
       LIMIT 1
    ) f ON true
    -- Behind a first row of another queue, with a limit, or that this node cannot run: the first that can start.
    LEFT JOIN LATERAL (
      SELECT h.id, h.priority, h.eligible_at, h.rate_limit
        FROM :schema.gen_durable h
       WHERE NOT f.fits AND h.concurrency_key = k.key AND h.status = 'runnable' AND h.queue = $1::text
         AND h.eligible_at <= coalesce($9::timestamptz, now())
         AND ((h.fsm, h.fsm_version) IN (SELECT * FROM unnest($4::text[], $5::int[]))) IS TRUE
         AND h.id <> ALL ($14::bigint[])
         AND (h.rate_limit IS NULL
              OR ((h.rate_limit IN (SELECT * FROM unnest($12::text[]))) IS NOT TRUE
                  AND h.weight <= (SELECT c.capacity FROM :schema.gen_durable_bucket_configs c
                                    WHERE c.kind = 'rate' AND c.name = split_part(h.rate_limit, ':', 1))))
       ORDER BY h.priority, h.eligible_at, h.id
       LIMIT 1
    ) h ON true
),
-- Picks that do not agree on which row can start (those of other queues, too) still meet on the first one, and its lock
-- decides between them.
met AS MATERIALIZED (
  SELECT c.id
    FROM keys k
    CROSS JOIN LATERAL (
      SELECT g.id FROM :schema.gen_durable g
       WHERE k.first <> k.id AND g.id = k.first AND g.status::text = 'runnable' FOR NO KEY UPDATE SKIP LOCKED
    ) c
),
wanted AS MATERIALIZED (
  SELECT l.id, l.priority, l.eligible_at, l.concurrency_key, l.rate_limit, l.gated
    FROM looked l
   WHERE NOT l.excluded AND (l.concurrency_key IS NULL OR l.gated)
     -- The exact look is for those that do not fit the smallest of all bursts.
     AND (l.rate_limit IS NULL
          OR (l.rated AND (l.weight <= (SELECT min(c.capacity) FROM :schema.gen_durable_bucket_configs c WHERE c.kind = 'rate')
                           OR l.weight <= (SELECT c.capacity FROM :schema.gen_durable_bucket_configs c
                                            WHERE c.kind = 'rate' AND c.name = split_part(l.rate_limit, ':', 1)))))
  UNION ALL
  SELECT k.id, k.priority, k.eligible_at, k.key, k.rate_limit, false
    FROM keys k WHERE k.id = k.first OR k.first IN (SELECT m.id FROM met m)
   ORDER BY 2, 3, 1
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
  SELECT f.cut, last.priority, last.eligible_at, last.id
    FROM (SELECT (SELECT count(*) FROM candidates) >= $2::int
                   OR (SELECT count(*) FROM chosen) < (SELECT count(*) FROM candidates) AS cut) f
    LEFT JOIN (SELECT c.priority, c.eligible_at, c.id FROM chosen c ORDER BY c.turn DESC LIMIT 1) last ON true
)
SELECT (SELECT count(*) FROM seen)::int AS seen, facts.cut,
       (SELECT count(*) FROM looked l WHERE l.concurrency_key IS NOT NULL OR l.rate_limit IS NOT NULL)::int
         + (SELECT count(*) FROM keys k WHERE k.id IS NOT NULL)::int AS limited,
       (SELECT array_agg(k.key) FROM keys k
         WHERE k.busy OR (NOT facts.cut AND k.id IS NOT NULL AND (k.id IN (SELECT c.id FROM candidates c)) IS NOT TRUE)) AS busy,
       (SELECT array_agg(c.concurrency_key) FROM chosen c
         WHERE c.concurrency_key IS NOT NULL AND NOT c.gated
           AND (SELECT true FROM :schema.gen_durable h
                 WHERE h.concurrency_key = c.concurrency_key AND h.status = 'runnable' AND h.queue = $1::text
                   AND h.eligible_at <= coalesce($9::timestamptz, now()) AND h.id <> c.id LIMIT 1)) AS followed,
       (SELECT array_agg(p.key)
          FROM (SELECT p.concurrency_key AS key FROM probed p GROUP BY p.concurrency_key
                HAVING count(*) >= (SELECT share.rows FROM share)) p) AS more,
       (SELECT json_agg(u) FROM (SELECT DISTINCT l.rate_limit AS key, l.fsm, l.step FROM looked l
                                  WHERE l.rate_limit IS NOT NULL AND NOT l.rated LIMIT 100) u) AS unknown,
       (SELECT json_agg(json_build_object('priority', s.priority, 'eligibleAt', s.eligible_at::text, 'id', s.id))
          FROM seen s
         WHERE s.place IN (SELECT max(r.place) FROM seen r
                            WHERE NOT facts.cut
                               OR (r.priority, r.eligible_at, r.id) <= (facts.priority, facts.eligible_at, facts.id)
                            GROUP BY r.priority)) AS reached,
       -- A wake that is younger than this statement's snapshot brought a signal or children that it cannot see.
       (SELECT json_agg(json_build_array(c.id, c.concurrency_key, c.gated, c.rate_limit, c.weight,
                                         c.inbox_bytes IS NOT NULL OR coalesce(c.wake_reason = 'signal', false),
                                         c.children_bytes IS NOT NULL OR coalesce(c.wake_reason = 'children', false))
                        ORDER BY c.turn)
          FROM chosen c) AS rows
  FROM facts
