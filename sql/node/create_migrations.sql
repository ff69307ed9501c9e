-- Runs:    a migrator that found no migrations table, under the advisory lock.
-- Does:    creates the record of what was applied. `oldest_code` is the oldest code version that can run on the schema.
-- Params:  none.
-- Returns: nothing.
-- Locks:   the catalogue.
CREATE TABLE :schema.migrations (
  version     int CONSTRAINT migrations_pkey PRIMARY KEY,
  name        text NOT NULL,
  oldest_code int NOT NULL,
  applied_at  timestamptz NOT NULL DEFAULT now()
)
