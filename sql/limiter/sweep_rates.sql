-- Runs:    collector, a batch of keys at a time.      Index: gen_durable_buckets_pkey.
-- Does:    deletes the counters of rate keys that have refilled to the brim, or whose limit is not configured any more: a
--          missing counter is a full one. All counters of a key go, or none. (The joins: as in lock_buckets.)
-- Params:  $1 after key text, $2 keys at most int.
-- Returns: last: the last key of the batch (NULL: there was none); keys: how many keys were looked at; swept: how many
--          counters went.
-- Locks:   gen_durable_buckets of kind rate, FOR UPDATE SKIP LOCKED, by key and shard: a key that a pick is using stays.
WITH batch AS MATERIALIZED (
  SELECT DISTINCT b.key FROM :schema.gen_durable_buckets b
   WHERE b.kind = 'rate' AND b.key > $1::text ORDER BY b.key LIMIT $2::int
), locked AS MATERIALIZED (
  SELECT b.key, b.shard, b.capacity, b.available, b.last_refill, c.name, c.rate, c.capacity AS burst, c.shards
    FROM (SELECT batch.key FROM batch ORDER BY batch.key) batch
   CROSS JOIN LATERAL (
     SELECT b.* FROM :schema.gen_durable_buckets b WHERE b.kind = 'rate' AND b.key = batch.key
      ORDER BY b.shard
        FOR UPDATE SKIP LOCKED) b
    LEFT JOIN :schema.gen_durable_bucket_configs c ON c.kind = 'rate' AND c.name = split_part(b.key, ':', 1)
), idle AS MATERIALIZED (
  SELECT 'rate'::text AS kind, l.key
    FROM locked l
   GROUP BY l.key
  HAVING count(*) = (SELECT count(*) FROM :schema.gen_durable_buckets b WHERE b.kind = 'rate' AND b.key = l.key)
     AND bool_and(l.name IS NULL
                  OR (l.rate > 0 AND l.available + extract(epoch FROM now() - l.last_refill) * l.rate / l.shards
                                     >= l.burst / l.shards))
), swept AS (
  DELETE FROM :schema.gen_durable_buckets b USING idle
   WHERE b.kind = ANY (ARRAY[idle.kind]) AND b.key = idle.key
  RETURNING b.key
)
SELECT (SELECT max(batch.key) FROM batch) AS last, (SELECT count(*) FROM batch)::int AS keys,
       (SELECT count(*) FROM swept)::int AS swept
