-- Runs:    a client, when the window of a burst of pokes closes; never for correctness.
-- Does:    pokes.
-- Params:  all text: $1 channel, $2 payloads[].
-- Returns: how many were sent.
-- Locks:   the server's notification queue, at commit.
SELECT CAST(count(pg_notify(CAST($1 AS text), payload)) AS text) AS pokes
FROM unnest(CAST(CAST($2 AS text) AS text[])) AS payload
