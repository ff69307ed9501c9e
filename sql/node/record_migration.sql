-- Runs:    a migrator, after each migration, in the same transaction.
-- Does:    records it.
-- Params:  $1 int version, $2 text name, $3 int oldest code version that can run on the schema from now on.
-- Returns: nothing.
-- Locks:   its own new row.
INSERT INTO :schema.migrations (version, name, oldest_code) VALUES ($1::int, $2::text, $3::int)
