-- Runs:    every migrator, first in its transaction.
-- Does:    waits until no other process migrates this schema.
-- Params:  $1 bigint, derived from the schema's name.
-- Returns: nothing of use.
-- Locks:   the transaction-scoped advisory lock $1; no table yet.
SELECT pg_advisory_xact_lock($1::bigint)
