-- Runs:    every migrator, under the advisory lock.
-- Does:    says whether the schema and its migrations table are there.
-- Params:  $1 text, the schema's name.
-- Returns: has_schema, has_migrations.
-- Locks:   nothing.
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text) AS has_schema,
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1::text AND c.relname = 'migrations') AS has_migrations
