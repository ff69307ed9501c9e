-- Runs:    collector, after lock_gates, in the same transaction; a statement of its own, so that it counts every row that
--          was committed before the locks were taken.      Indexes: gen_durable_lease, gen_durable_buckets_pkey.
-- Does:    sets the counters of the keys to what executes, and to the configured limit; adds the shards that a raised
--          number of shards has brought. Keys under which nothing executes lose all their counters: the next pick makes them
--          anew, full. (The joins: as in lock_buckets.)
-- Params:  $1 keys text[]: all of their counters are locked.
-- Returns: gates: how many keys went; healed: how many counters were wrong; added: how many shards were missing.
-- Locks:   counters that lock_gates has locked. A shard that a pick is just making is not waited for beyond the lock timeout.
WITH used AS MATERIALIZED (
  SELECT g.concurrency_key AS key, g.concurrency_shard AS shard, count(*) AS slots
    FROM :schema.gen_durable g
   WHERE g.status = 'executing' AND g.concurrency_shard >= 0
   GROUP BY g.concurrency_key, g.concurrency_shard
), held AS MATERIALIZED (
  SELECT 'conc'::text AS kind, k.key, c.capacity AS total, c.shards, (k.key IN (SELECT u.key FROM used u)) AS used
    FROM unnest($1::text[]) AS k (key)
    LEFT JOIN :schema.gen_durable_bucket_configs c ON c.kind = 'conc' AND c.name = split_part(k.key, ':', 1)
), swept AS (
  DELETE FROM :schema.gen_durable_buckets b USING held h
   WHERE b.kind = ANY (ARRAY[h.kind]) AND b.key = h.key AND NOT h.used
  RETURNING b.key
), truth AS MATERIALIZED (
  SELECT 'conc'::text AS kind, s.key, s.shard, s.capacity, coalesce(u.slots, 0) AS slots,
         (SELECT true FROM :schema.gen_durable_buckets b
           WHERE b.kind = 'conc' AND b.key = s.key AND b.shard = s.shard) AS exists
    FROM (
      -- A limit that is not configured any more admits nothing: what executes under it is a debt.
      SELECT h.key, n.shard,
             CASE WHEN n.shard < h.shards
                  THEN floor(h.total / h.shards) + CASE WHEN n.shard < h.total::bigint % h.shards THEN 1 ELSE 0 END
                  ELSE 0 END AS capacity
        FROM held h
        CROSS JOIN LATERAL (
          SELECT generate_series(0, h.shards - 1) AS shard
          UNION
          SELECT b.shard FROM :schema.gen_durable_buckets b WHERE b.kind = 'conc' AND b.key = h.key
        ) n
       WHERE h.used
    ) s
    LEFT JOIN used u ON u.key = s.key AND u.shard = s.shard
), healed AS (
  UPDATE :schema.gen_durable_buckets b
     SET capacity = t.capacity, available = greatest(t.capacity - t.slots, 0), debt = greatest(t.slots - t.capacity, 0)
    FROM truth t
   WHERE b.kind = ANY (ARRAY[t.kind]) AND b.key = t.key AND b.shard = t.shard
     AND (b.capacity, b.available, b.debt)
         IS DISTINCT FROM (t.capacity, greatest(t.capacity - t.slots, 0), greatest(t.slots - t.capacity, 0))
  RETURNING b.key
), added AS (
  INSERT INTO :schema.gen_durable_buckets (kind, key, shard, capacity, available, debt)
  SELECT 'conc', t.key, t.shard, t.capacity, greatest(t.capacity - t.slots, 0), greatest(t.slots - t.capacity, 0)
    FROM truth t WHERE t.exists IS NULL
   ORDER BY t.key, t.shard
  ON CONFLICT DO NOTHING
  RETURNING key
)
SELECT (SELECT count(DISTINCT swept.key) FROM swept)::int AS gates, (SELECT count(*) FROM healed)::int AS healed,
       (SELECT count(*) FROM added)::int AS added
