-- Runs:    picker, for a queue whose limits had plenty at the last look; one statement and a transaction of its own.
--          Indexes: gen_durable_pick, gen_durable_pkey, gen_durable_bucket_configs_pkey, gen_durable_buckets_pkey.
-- Does:    claims due runnable rows, urgent first, with the slots and tokens that they need; the counters are locked last, no
--          longer than the commit takes. All or nothing: where some row has a key that no gate is configured for, or a limit
--          that is unknown, new, changed, or has less than twice what is wanted of it, no row is claimed and no counter is
--          touched, and the caller picks by lock_candidates. A pick draws on one shard of a key as long as that lasts.
-- Params:  $1 queue text, $2 rows at most int, $3 claim text (<node>/<pick>), $4 lease ms float8, $5 definition names text[],
--          $6 their versions int[], $7 priorities int[], $8 resume there after eligible_at timestamptz[] and $9 after id bigint[]
--          (same length; a priority that is not named is looked at from its start), $10 as of timestamptz or NULL (now),
--          $11 bytes at most float8 (at least one row), $12 ids to leave out bigint[].
-- Returns: the claimed rows in pick order, with what their steps need, and on each row: seen (rows found), cut (rows were left
--          for the next pick), limited (rows with limits among them), plenty (false: nothing was claimed, there is one row that
--          says only that), settled (1). It fails with division_by_zero (22012) when somebody else was first with the slots
--          or tokens, or the counters are gone: nothing is committed then.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED in pick order; then gen_durable_buckets, FOR UPDATE, by kind, key and
--          shard. It waits for a commit that credits or debits the same counter, under a lock timeout below the server's
--          deadlock_timeout. Its commit waits for the disk, unlike that of claim_runnable: limits hold through a crash.
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
    LEFT JOIN unnest($7::int[], $8::timestamptz[], $9::bigint[]) AS r (priority, after_at, after_id)
      ON r.priority = f.priority
   WHERE f.priority IS NOT NULL
   ORDER BY f.priority
),
candidates AS MATERIALIZED (
  SELECT row_number() OVER () AS turn, c.*
    FROM (
      SELECT c.*
        FROM places p
        CROSS JOIN LATERAL (
          -- What is compressed or large is measured as the text that travels.
          SELECT g.id, g.visit, g.concurrency_key, g.rate_limit, g.weight,
                 CASE WHEN pg_column_size(g.state) > 1500 OR pg_column_compression(g.state) IS NOT NULL
                      THEN octet_length(g.state::text) ELSE pg_column_size(g.state) END AS state_bytes
            FROM :schema.gen_durable g
           WHERE g.queue = $1::text AND g.status = 'runnable' AND g.priority = p.priority
             AND g.eligible_at <= coalesce($10::timestamptz, now())
             AND (g.eligible_at, g.id) > (p.after_at, p.after_id)
             AND g.id <> ALL ($12::bigint[])
             AND ((g.fsm, g.fsm_version) IN (SELECT * FROM unnest($5::text[], $6::int[]))) IS TRUE
           ORDER BY g.eligible_at, g.id
           LIMIT $2::int
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
-- `drawn` is a row's place among the rows with keys, key by key: its slot is at the same place of the slots.
chosen AS MATERIALIZED (
  SELECT w.*, row_number() OVER (PARTITION BY w.concurrency_key IS NULL ORDER BY w.concurrency_key, w.turn) AS drawn
    FROM (SELECT w.*, sum(w.state_bytes + coalesce(w.inbox_bytes, 0) + coalesce(w.children_bytes, 0))
                      OVER (ORDER BY w.turn) AS total_bytes
            FROM weighed w) w
   WHERE w.total_bytes <= $11::float8 OR w.turn = 1
),
-- The limits are read by each pick: a change counts for the next one, on every node.
wanted AS MATERIALIZED (
  SELECT w.kind, w.key, w.amount, c.capacity AS total, c.shards, coalesce(c.rate, 0) / c.shards AS rate
    FROM (SELECT 'conc' AS kind, c.concurrency_key AS key, count(*)::float8 AS amount
            FROM chosen c WHERE c.concurrency_key IS NOT NULL GROUP BY c.concurrency_key
          UNION ALL
          SELECT 'rate', c.rate_limit, sum(c.weight)
            FROM chosen c WHERE c.rate_limit IS NOT NULL GROUP BY c.rate_limit) w
    LEFT JOIN :schema.gen_durable_bucket_configs c ON c.kind = w.kind AND c.name = split_part(w.key, ':', 1)
),
counters AS MATERIALIZED (
  SELECT w.kind, w.key, w.amount, b.shard, b.capacity,
         b.debt = 0 AND b.shard < w.shards
           AND b.capacity = CASE WHEN w.kind = 'rate' THEN w.total / w.shards
                                 ELSE floor(w.total / w.shards)
                                      + CASE WHEN b.shard < w.total::bigint % w.shards THEN 1 ELSE 0 END END AS is_current,
         CASE WHEN w.kind = 'conc' THEN b.available
              ELSE least(b.capacity, b.available
                     + w.rate * greatest(extract(epoch FROM now() - b.last_refill)::float8, 0)) END AS available,
         w.rate
    FROM wanted w
    CROSS JOIN LATERAL (
      SELECT b.* FROM :schema.gen_durable_buckets b WHERE b.kind = w.kind AND b.key = w.key OFFSET 0) b
),
-- Slots may come from several shards; tokens come from one.
ranked AS MATERIALIZED (
  SELECT c.*,
         coalesce(sum(c.available) OVER (key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before,
         bool_and(c.is_current) OVER whole
           AND CASE WHEN c.kind = 'conc' THEN sum(c.available) OVER whole ELSE max(c.available) OVER whole END >= 2 * c.amount
           AS plenty
    FROM counters c
  WINDOW whole AS (PARTITION BY c.kind, c.key),
         key AS (PARTITION BY c.kind, c.key
                 ORDER BY c.available < c.amount, CASE WHEN c.available < c.amount THEN -c.available ELSE random() END)
),
verdict AS MATERIALIZED (
  SELECT (SELECT count(*) FROM wanted) = (SELECT count(*) FROM ranked r WHERE r.plenty AND r.before = 0 AND r.available > 0)
         AS plenty
),
draws AS MATERIALIZED (
  SELECT r.kind, r.key, r.shard, r.capacity, r.rate,
         CASE WHEN r.kind = 'rate' THEN r.amount ELSE least(r.available, r.amount - r.before) END AS amount
    FROM ranked r
   WHERE r.before < r.amount AND r.available > 0 AND (SELECT verdict.plenty FROM verdict)
   ORDER BY r.kind, r.key, r.shard
),
claimed AS (
  UPDATE :schema.gen_durable g
     SET status = 'executing', locked_by = $3::text, concurrency_shard = c.shard,
         lease_expires_at = now() + $4::float8 * interval '1 millisecond', updated_at = now()
    FROM (SELECT c.id,
                 CASE WHEN c.concurrency_key IS NOT NULL
                      THEN (ARRAY(SELECT d.shard FROM draws d CROSS JOIN generate_series(1, d.amount::int) WHERE d.kind = 'conc'
                                   ORDER BY d.key, d.shard))[c.drawn] END AS shard
            FROM chosen c
           WHERE (SELECT verdict.plenty FROM verdict)) c
   -- An equality can be joined from either side; this is looked up row by row.
   WHERE g.id = ANY (ARRAY[c.id])
  RETURNING g.id, g.fsm, g.fsm_version, g.step, g.state, g.attempt, g.visit, g.crashes, g.reaps, g.priority,
            g.eligible_at, g.awaits, g.await_seen, g.wake_reason, g.parent_id, g.parent_visit, g.cancel_reason, g.concurrency_key
),
-- The count makes the rows come first: their update is over before a counter is locked.
patient AS MATERIALIZED (
  SELECT set_config('lock_timeout', '400', true) AS lock_timeout, (SELECT count(*) FROM claimed) AS claimed
),
locked AS MATERIALIZED (
  SELECT b.kind, b.key, b.shard, d.amount, d.capacity, d.rate
    FROM patient
   CROSS JOIN (SELECT * FROM draws d ORDER BY d.kind, d.key, d.shard) d
   CROSS JOIN LATERAL (
     SELECT b.kind, b.key, b.shard FROM :schema.gen_durable_buckets b
      WHERE b.kind = d.kind AND b.key = d.key AND b.shard = d.shard AND patient.lock_timeout IS NOT NULL
        FOR UPDATE) b
),
debited AS (
  UPDATE :schema.gen_durable_buckets b
     SET available = CASE WHEN l.kind = 'conc' THEN b.available
                          ELSE least(b.capacity, b.available
                                 + l.rate * greatest(extract(epoch FROM now() - b.last_refill)::float8, 0)) END - l.amount,
         last_refill = CASE WHEN l.kind = 'rate' THEN greatest(b.last_refill, now()) END
    FROM locked l
   WHERE b.kind = ANY (ARRAY[l.kind]) AND b.key = l.key AND b.shard = l.shard
     AND b.capacity = l.capacity AND b.debt = 0
     AND CASE WHEN l.kind = 'conc' THEN b.available
              ELSE least(b.capacity, b.available
                     + l.rate * greatest(extract(epoch FROM now() - b.last_refill)::float8, 0)) END >= l.amount
  RETURNING b.key
),
facts AS MATERIALIZED (
  SELECT (SELECT count(*) FROM candidates)::int AS seen,
         (SELECT count(*) FROM candidates) >= $2::int
           OR (SELECT count(*) FROM chosen) < (SELECT count(*) FROM candidates) AS cut,
         (SELECT count(*) FROM candidates c WHERE c.concurrency_key IS NOT NULL OR c.rate_limit IS NOT NULL)::int AS limited,
         (SELECT verdict.plenty FROM verdict) AS plenty,
         1 / ((SELECT count(*) FROM debited) = (SELECT count(*) FROM draws))::int AS settled
)
SELECT g.id, g.fsm, g.fsm_version AS version, g.step, g.state, g.attempt, g.visit, g.crashes, g.reaps, g.priority,
       g.eligible_at::text AS eligible_at, g.awaits, g.await_seen, g.wake_reason, g.parent_id, g.parent_visit, g.cancel_reason,
       g.concurrency_key,
       -- A wake that is younger than this statement's snapshot brought a signal or children that it cannot see.
       (c.inbox_bytes IS NOT NULL OR coalesce(g.wake_reason = 'signal', false)) AS has_inbox,
       (c.children_bytes IS NOT NULL OR coalesce(g.wake_reason = 'children', false)) AS has_children,
       facts.seen, facts.cut, facts.limited, facts.plenty, facts.settled
  FROM facts LEFT JOIN (claimed g JOIN chosen c ON c.id = g.id) ON true
 ORDER BY c.turn
