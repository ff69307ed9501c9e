-- Runs:    migrators, and every node at its start.
-- Does:    reads how far the schema is, and the oldest code that can run on it.
-- Params:  none.
-- Returns: version, oldest_code; both 0 for an empty record.
-- Locks:   nothing.
SELECT coalesce(max(version), 0) AS version, coalesce(max(oldest_code), 0) AS oldest_code FROM :schema.migrations
