-- Runs:    a migrator that found no schema, under the advisory lock.
-- Does:    creates the schema.
-- Params:  none.
-- Returns: nothing.
-- Locks:   the catalogue.
CREATE SCHEMA :schema
