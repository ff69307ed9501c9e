-- Runs:    flusher, in a transaction that makes rows runnable which other nodes may have to run.
-- Does:    pokes; sent by the server when the transaction commits.
-- Params:  $1 text, the channel; $2 payloads text[].
-- Returns: nothing of use.
-- Locks:   the server's notify queue, at the commit.
SELECT pg_notify($1::text, payload) FROM unnest($2::text[]) AS p (payload)
