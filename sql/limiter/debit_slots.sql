-- Runs:    limiter, last in a pick whose gates had slots in plenty, so that their counters are locked no longer than the
--          commit takes.                                                            Index: gen_durable_buckets_pkey.
-- Does:    takes the slots of the claimed rows, where they are still there and the limit is still the one they were drawn from.
--          (The joins: as in lock_buckets.)
-- Params:  arrays, one entry a shard: $1 keys text[], $2 shards int[], $3 slots float8[], $4 the shards' capacities when they
--          were drawn from float8[].
-- Returns: how many counters were debited; fewer than asked for: the slots are gone, and the pick must not commit.
-- Locks:   gen_durable_buckets, FOR UPDATE, by key and shard, after every instance row. It waits for a commit that credits
--          or debits the same counter: longer than for a single row, and shorter than the server's deadlock_timeout.
WITH patient AS MATERIALIZED (
  SELECT set_config('lock_timeout', '400', true) AS lock_timeout
), drawn AS MATERIALIZED (
  SELECT b.kind, b.key, b.shard, d.slots, d.capacity
    FROM patient
   CROSS JOIN (SELECT d.* FROM unnest($1::text[], $2::int[], $3::float8[], $4::float8[]) AS d (key, shard, slots, capacity)
                ORDER BY d.key, d.shard) d
   CROSS JOIN LATERAL (
     SELECT b.kind, b.key, b.shard FROM :schema.gen_durable_buckets b
      WHERE b.kind = 'conc' AND b.key = d.key AND b.shard = d.shard AND patient.lock_timeout IS NOT NULL
        FOR UPDATE) b
), debited AS (
  UPDATE :schema.gen_durable_buckets AS b SET available = b.available - d.slots
    FROM drawn d
   WHERE b.kind = ANY (ARRAY[d.kind]) AND b.key = d.key AND b.shard = d.shard
     AND b.capacity = d.capacity AND b.debt = 0 AND b.available >= d.slots
  RETURNING b.key
)
SELECT count(*)::int AS debited FROM debited
