-- Runs:    cli `grants`.
-- Does:    says what a role needs to run nodes and clients on a schema that another role owns and migrates: rows, not tables.
-- Params:  $1 text, the schema; $2 text, the role.
-- Returns: has_role, and the statements text[] in order, without semicolons. Tables of later migrations are granted by the last one,
--          where the same owner migrates.
-- Locks:   nothing.
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $2::text) AS has_role,
       ARRAY[
         format('GRANT USAGE ON SCHEMA %I TO %I', $1::text, $2::text),
         format('GRANT USAGE ON TYPE %I.durable_status TO %I', $1::text, $2::text),
         format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %I',
                (SELECT string_agg(format('%I.%I', n.nspname, c.relname), ', ' ORDER BY c.relname)
                   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname = $1::text AND c.relkind IN ('r', 'p') AND c.relname <> 'migrations'), $2::text),
         format('GRANT SELECT ON %I.migrations TO %I', $1::text, $2::text),
         format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', $1::text, $2::text)
       ] AS statements
