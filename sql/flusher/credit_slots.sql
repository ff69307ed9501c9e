-- Runs:    flusher and a client that cancels, last in a transaction that frees gate slots.   Index: gen_durable_buckets_pkey.
-- Does:    gives the slots of rows that left executing back to their shards; a debt is paid off first. (The joins: as in limiter/lock_buckets.)
-- Params:  arrays, one entry a shard: $1 keys text[], $2 shards int[], $3 slots float8[].
-- Returns: key and shard of each counter that was already full (an invariant is broken; the surplus is dropped).
-- Locks:   gen_durable_buckets, FOR UPDATE, by key and shard, after every instance row. It waits for a picker's admission;
--          nobody holds a bucket and asks for an instance. The wait is somebody's commit, and no fault of a row of the batch:
--          it gets a longer timeout than waits for a single row have.
WITH patient AS MATERIALIZED (
  SELECT set_config('lock_timeout', '5000', true) AS lock_timeout
), freed AS MATERIALIZED (
  SELECT b.kind, b.key, b.shard, f.slots, b.available + greatest(f.slots - b.debt, 0) > b.capacity AS overflows
  FROM patient
  CROSS JOIN (SELECT f.* FROM unnest($1::text[], $2::int[], $3::float8[]) AS f (key, shard, slots) ORDER BY f.key, f.shard) f
  CROSS JOIN LATERAL (
    SELECT b.* FROM :schema.gen_durable_buckets b
    WHERE b.kind = 'conc' AND b.key = f.key AND b.shard = f.shard AND patient.lock_timeout IS NOT NULL
    FOR UPDATE) b
), credited AS (
  UPDATE :schema.gen_durable_buckets AS b SET
    debt = greatest(b.debt - f.slots, 0),
    available = least(b.available + greatest(f.slots - b.debt, 0), b.capacity)
  FROM freed f
  WHERE b.kind = ANY (ARRAY[f.kind]) AND b.key = f.key AND b.shard = f.shard
)
SELECT key, shard FROM freed WHERE overflows
