-- Runs:    coordinator, once, before it picks; only when the configuration states limits.
-- Does:    enters the limits that the configuration names; others stay as they are.
-- Params:  $1 kinds text[] ('rate' or 'conc'), $2 names text[], $3 rates float8[] (NULL for gates), $4 capacities float8[],
--          $5 shards int[]; one entry a limit.
-- Returns: nothing.
-- Locks:   gen_durable_bucket_configs, in primary key order.
INSERT INTO :schema.gen_durable_bucket_configs AS known (kind, name, rate, capacity, shards)
SELECT l.* FROM unnest($1::text[], $2::text[], $3::float8[], $4::float8[], $5::int[])
                AS l (kind, name, rate, capacity, shards)
 ORDER BY l.kind, l.name
ON CONFLICT (kind, name) DO UPDATE
   SET rate = excluded.rate, capacity = excluded.capacity, shards = excluded.shards
 WHERE (known.rate, known.capacity, known.shards) IS DISTINCT FROM (excluded.rate, excluded.capacity, excluded.shards)
