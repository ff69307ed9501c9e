-- Runs:    limiter, in the transaction of a pick, over the keys of its candidates.
--          Indexes: gen_durable_bucket_configs_pkey, gen_durable_buckets_pkey.
-- Does:    locks the counters of the keys and says what is in them; tokens are refilled up to now, by the database's clock.
-- Params:  $1 kinds text[] ('conc' or 'rate') and $2 keys text[], distinct pairs. $3 float8: milliseconds that count as
--          passed beside the real ones (the testing helpers).
-- Returns: per key and counter: kind, key, rate, total (the configured limit or burst), shards; shard (NULL: the key has no
--          counter yet), capacity, available, debt, grabbed (false: somebody else has it locked). A key whose limit is
--          not configured any more is absent.
-- Locks:   gen_durable_buckets, FOR UPDATE SKIP LOCKED, by kind, key and shard, after every instance row: it never waits.
WITH w AS MATERIALIZED (
  SELECT w.kind, w.key, c.rate, c.capacity AS total, c.shards
    FROM unnest($1::text[], $2::text[]) AS w (kind, key)
    JOIN :schema.gen_durable_bucket_configs c ON c.kind = w.kind AND c.name = split_part(w.key, ':', 1)
),
grabbed AS MATERIALIZED (
  SELECT b.kind, b.key, b.shard, b.capacity, b.available, b.debt, b.last_refill
    FROM w JOIN :schema.gen_durable_buckets b ON b.kind = w.kind AND b.key = w.key
   ORDER BY b.kind, b.key, b.shard
     FOR UPDATE OF b SKIP LOCKED
)
SELECT w.kind, w.key, w.rate, w.total, w.shards, b.shard,
       coalesce(g.capacity, b.capacity) AS capacity,
       CASE WHEN w.kind = 'conc' THEN coalesce(g.available, b.available)
            ELSE least(w.total / w.shards,
                       coalesce(g.available, b.available) + w.rate / w.shards
                         * (greatest(extract(epoch FROM now() - coalesce(g.last_refill, b.last_refill))::float8, 0)
                            + $3::float8 / 1000)) END AS available,
       coalesce(g.debt, b.debt) AS debt,
       g.shard IS NOT NULL AS grabbed
  FROM w
  LEFT JOIN :schema.gen_durable_buckets b ON b.kind = w.kind AND b.key = w.key
  LEFT JOIN grabbed g ON g.kind = b.kind AND g.key = b.key AND g.shard = b.shard
 ORDER BY w.kind, w.key, b.shard
