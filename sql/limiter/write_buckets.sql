-- Runs:    limiter, after lock_buckets, in the same transaction; only over counters that it locked, or that do not exist.
-- Does:    writes what an admission has left in them. A counter that does not exist yet is made, already debited; where two
--          picks make the same one, the primary key decides, and the loser begins anew. (The joins: as in lock_buckets.)
-- Params:  arrays, one entry a counter, by kind, key and shard: $1 kinds text[], $2 keys text[], $3 shards int[],
--          $4 capacities float8[], $5 available float8[], $6 debts float8[], $7 whether it is made boolean[].
-- Returns: nothing.
-- Locks:   gen_durable_buckets that lock_buckets has locked; new rows by kind, key and shard: it may wait there for a
--          pick that makes the same counter, under the lock timeout.
WITH b AS MATERIALIZED (
  SELECT b.* FROM unnest($1::text[], $2::text[], $3::int[], $4::float8[], $5::float8[], $6::float8[], $7::boolean[])
                  WITH ORDINALITY AS b (kind, key, shard, capacity, available, debt, made, n)
), made AS (
  INSERT INTO :schema.gen_durable_buckets (kind, key, shard, capacity, available, debt, last_refill)
  SELECT b.kind, b.key, b.shard, b.capacity, b.available, b.debt, CASE WHEN b.kind = 'rate' THEN now() END
    FROM b WHERE b.made ORDER BY b.n
)
UPDATE :schema.gen_durable_buckets AS k
   SET capacity = b.capacity, available = b.available, debt = b.debt,
       last_refill = CASE WHEN b.kind = 'rate' THEN greatest(k.last_refill, now()) END
  FROM b
 WHERE NOT b.made AND k.kind = ANY (ARRAY[b.kind]) AND k.key = b.key AND k.shard = b.shard
