-- Runs:    collector, first in the transaction that reconciles gates; a batch of keys at a time.
--          Index: gen_durable_buckets_pkey.
-- Does:    locks the counters of gates, and says which keys it has locked whole. (The joins: as in lock_buckets.)
-- Params:  $1 after key text, $2 keys at most int.
-- Returns: per key of the batch, in their order: key, whole (all of its counters are locked by us).
-- Locks:   gen_durable_buckets of kind conc, FOR UPDATE SKIP LOCKED, by key and shard: a key that a pick is using just now
--          is left to the next sweep.
WITH batch AS MATERIALIZED (
  SELECT DISTINCT b.key FROM :schema.gen_durable_buckets b
   WHERE b.kind = 'conc' AND b.key > $1::text ORDER BY b.key LIMIT $2::int
), locked AS MATERIALIZED (
  SELECT b.key, b.shard
    FROM (SELECT batch.key FROM batch ORDER BY batch.key) batch
   CROSS JOIN LATERAL (
     SELECT b.key, b.shard FROM :schema.gen_durable_buckets b WHERE b.kind = 'conc' AND b.key = batch.key
      ORDER BY b.shard
        FOR UPDATE SKIP LOCKED) b
)
SELECT batch.key, bool_and((b.key, b.shard) IN (SELECT l.key, l.shard FROM locked l)) AS whole
  FROM batch
  CROSS JOIN LATERAL (
    SELECT b.key, b.shard FROM :schema.gen_durable_buckets b WHERE b.kind = 'conc' AND b.key = batch.key OFFSET 0) b
 GROUP BY batch.key
 ORDER BY batch.key
