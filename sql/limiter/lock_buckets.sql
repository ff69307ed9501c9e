-- Runs:    limiter, in the transaction of a pick, over the keys of its candidates.
--          Indexes: gen_durable_bucket_configs_pkey, gen_durable_buckets_pkey.
-- Does:    locks the counters of the keys and says what is in them; tokens are refilled up to now, by the database's clock.
--          Where all of the keys are gates with slots in plenty (at least twice what is wanted of each), and may be drawn on
--          without a lock, nothing is locked: debit_slots takes them at the end of the pick.
--          A counter is looked up by its key, once for each row that asks: a plan that was made over a few counters would join
--          the other way about, and read them all. So what is looked up is a LATERAL subquery that stays one, and where
--          that cannot be, in an UPDATE, the kind is an element of an array of one, which can be joined from one side only.
-- Params:  $1 kinds text[] ('conc' or 'rate') and $2 keys text[], distinct pairs. $3 float8: milliseconds that count as
--          passed beside the real ones (the testing helpers). $4 wanted int[]: slots that candidates want of each, or 0: the
--          key is locked in any case.
-- Returns: per key and counter: kind, key, rate, total (the configured limit or burst), shards; shard (NULL: the key has no
--          counter yet), capacity, available, debt, grabbed (false: not locked by us), wide (nothing was locked, for there is
--          plenty). A key whose limit is not configured any more is absent.
-- Locks:   gen_durable_buckets, FOR UPDATE SKIP LOCKED, by kind, key and shard, after every instance row: it never waits.
WITH configured AS MATERIALIZED (
  SELECT w.kind, w.key, w.wanted, c.rate, c.capacity AS total, c.shards
    FROM unnest($1::text[], $2::text[], $4::int[]) AS w (kind, key, wanted)
    JOIN :schema.gen_durable_bucket_configs c ON c.kind = w.kind AND c.name = split_part(w.key, ':', 1)
),
w AS MATERIALIZED (
  SELECT c.kind, c.key, c.rate, c.total, c.shards,
         (SELECT bool_and(d.kind = 'conc' AND d.wanted > 0
                          AND coalesce((SELECT bool_and(b.shard < d.shards AND b.debt = 0
                                                        AND b.capacity = floor(d.total / d.shards)
                                                              + CASE WHEN b.shard < d.total::bigint % d.shards THEN 1 ELSE 0 END)
                                               AND sum(b.available) >= 2 * d.wanted
                                          FROM :schema.gen_durable_buckets b WHERE b.kind = d.kind AND b.key = d.key), false))
            FROM configured d) AS wide
    FROM configured c
),
grabbed AS MATERIALIZED (
  SELECT w.*, b.shard, b.capacity, b.available, b.debt, b.last_refill
    FROM (SELECT * FROM w WHERE NOT w.wide ORDER BY w.kind, w.key) w
   CROSS JOIN LATERAL (
     SELECT b.* FROM :schema.gen_durable_buckets b WHERE b.kind = w.kind AND b.key = w.key
      ORDER BY b.shard
        FOR UPDATE SKIP LOCKED) b
),
-- What somebody else has locked is told as it was committed. The membership is a hashed lookup; a join of two lists would
-- compare each with each.
found AS (
  SELECT g.*, true AS grabbed FROM grabbed g
  UNION ALL
  SELECT w.*, b.shard, b.capacity, b.available, b.debt, b.last_refill, false
    FROM w
    LEFT JOIN LATERAL (
      SELECT b.* FROM :schema.gen_durable_buckets b WHERE b.kind = w.kind AND b.key = w.key OFFSET 0) b ON true
   WHERE ((w.kind, w.key, b.shard) IN (SELECT g.kind, g.key, g.shard FROM grabbed g)) IS NOT TRUE
)
SELECT f.kind, f.key, f.rate, f.total, f.shards, f.shard, f.capacity,
       CASE WHEN f.kind = 'conc' THEN f.available
            ELSE least(f.total / f.shards,
                       f.available + f.rate / f.shards
                         * (greatest(extract(epoch FROM now() - f.last_refill)::float8, 0) + $3::float8 / 1000)) END AS available,
       f.debt, f.grabbed, f.wide
  FROM found f
 ORDER BY f.kind, f.key, f.shard
