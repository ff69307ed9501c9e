-- Runs:    flusher, on a new connection, when the old one was lost in a COMMIT.
-- Does:    says what became of that transaction.
-- Params:  $1 text, the transaction's id (xid8).
-- Returns: status: committed, aborted, in progress; NULL when it is too old to be known.
-- Locks:   nothing.
SELECT pg_xact_status(CAST($1::text AS xid8)) AS status
